"""Resource usage of jobs: samples of the nodes (`samples`), their summary (`summary`), verdicts (`rules`, `verdicts`), and
the scheduler's accounting (`accounting`).
"""
