"""Resource usage of jobs: `dlrun usage` (`command`, `tables`), `top` (`top_screen`) and `report`.

Begin with `job` (the usage of each run): `phases` divides its time, `cold_start` compares it with a warm one, `samples`
reads the sampler's files, `summary` summarises them, `verdicts` applies the `rules`. `live` is the state of a running
job; `tables` shows usage beside the scheduler's accounting, `overview` shows a run in a few lines, `formats` formats
quantities. `report_content` collects what the page of `report_page` shows.
"""
