"""Cases from teaching packets: triage, role packets by copying and deleting, an audit, and a rubric.

A model names lines of the source, and the copies are made of these lines by rule: nothing that a model
writes becomes part of a packet but a rewrite of one line, which may only take words away or repeat
what the metadata say. Each reply is checked by rule, and asked for again at most twice.
"""
