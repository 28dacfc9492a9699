"""Tests of encounters."""
