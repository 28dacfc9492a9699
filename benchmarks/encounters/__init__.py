"""Encounters: the model under test as the clinician of a standardized patient.

`packets` has what each role is given. MedSP1000 (Liang et al., 2026) and AgentClinic (Schmidgall et al.,
2024) go by it. Each part is imported where it is asked for.
"""
