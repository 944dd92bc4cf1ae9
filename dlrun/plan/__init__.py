"""Spec + site + topology -> plan: every decision with its rule and its reason. Pure.

Begin with `build`, the order of all steps; `decisions` is where they put values, reasons and problems. `resources`, `roles`,
`binding`, `environment`, `fabric`, `container`, `endings`, `runtime_checks` and `limits` are a step each; `affinity`,
`command`, `data`, `metrics` and `scaling` are rooms of their own. `codes` documents problems.
"""
