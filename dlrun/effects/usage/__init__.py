"""What a job used: the samples of its nodes (`samples`), put together (`summary`), judged (`rules`, `verdicts`), and held
against the scheduler's accounting (`accounting`).
"""
