"""The variables of each experiment tracker: what dlrun sets them to, why, and where they are documented."""

from __future__ import annotations

from dlrun.model.record import record
from dlrun.model.spec import Tracker
from dlrun.model.text import Shell, Text, Word

DIRECTORY = "TENSORBOARD_LOGGING_DIR"
OFFLINE_MODE, OFFLINE_DIRECTORY = "WANDB_MODE", "WANDB_DIR"
_RUN = Shell("$DLRUN_TRACK_ID")
_JOB = Shell("$DLRUN_JOB_ID")
_PLAN = Shell("$DLRUN_PLAN")
_WANDB = "https://docs.wandb.ai/guides/track/environment-variables/"


@record(frozen=True, slots=True, kw_only=True)
class Setting:
    """One variable of one tracker, for rank 0 only unless `every` rank gets it; `of_sweep`: only in sweeps; `offline`: only where
    nodes do not reach the internet.

    The literal piece `{site}` of its value becomes the name of the site profile.
    """

    tracker: Tracker
    variable: str
    value: tuple[Word, ...]
    because: str
    source: str
    every: bool = False
    of_sweep: bool = False
    offline: bool = False

    def text(self, site: str) -> Text:
        """The value for a job on this site."""
        return Text.of(
            *(piece.replace("{site}", site) if isinstance(piece, str) else piece for piece in self.value)
        )


SETTINGS = (
    Setting(
        tracker="wandb",
        variable="WANDB_RUN_ID",
        value=(_RUN,),
        because="every start of the job continues one run, each point of a sweep its own",
        source=_WANDB,
    ),
    Setting(
        tracker="wandb",
        variable="WANDB_RESUME",
        value=("allow",),
        because="continue the run of this id, or begin it",
        source=_WANDB,
    ),
    Setting(
        tracker="wandb",
        variable="WANDB_NAME",
        value=(_RUN,),
        because="the run is shown under the name of the job directory",
        source=_WANDB,
    ),
    Setting(
        tracker="wandb",
        variable="WANDB_RUN_GROUP",
        value=(Shell("${DLRUN_JOB_DIR##*/}"),),
        because="the points of a sweep are one group",
        source=_WANDB,
        of_sweep=True,
    ),
    Setting(
        tracker="wandb",
        variable="WANDB_TAGS",
        # A tag has at most 64 characters; W&B refuses the run otherwise.
        value=("job:", _JOB, ",site:{site},plan:", _PLAN, Shell("${DLRUN_COMMIT:+,commit:$DLRUN_COMMIT}")),
        because="runs can be found by job, site, plan and commit",
        source=_WANDB,
    ),
    Setting(
        tracker="wandb",
        variable=OFFLINE_MODE,
        value=("offline",),
        because="the nodes of this site do not reach the internet; `wandb sync` uploads the run after the end of the job",
        source=_WANDB,
        every=True,
        offline=True,
    ),
    Setting(
        tracker="wandb",
        variable=OFFLINE_DIRECTORY,
        value=(Shell("$DLRUN_RUN_DIR"),),
        because="what `wandb sync` uploads lies in one directory for all starts of a run",
        source=_WANDB,
        every=True,
        offline=True,
    ),
    Setting(
        tracker="mlflow",
        variable="MLFLOW_RUN_CONTEXT",
        value=(
            '{"mlflow.runName": "', _RUN, '", "dlrun.run": "', _RUN, '", "dlrun.job": "', _JOB,
            '", "dlrun.site": "{site}", "dlrun.plan": "', _PLAN, '", "dlrun.commit": "', Shell("$DLRUN_COMMIT"), '"}',
        ),
        because="tags of each new run; MLflow chooses the ids of runs itself, so that a restart finds its run by `dlrun.run`",
        source="https://mlflow.org/docs/latest/api_reference/python_api/mlflow.environment_variables.html",
    ),
    Setting(
        tracker="tensorboard",
        variable=DIRECTORY,
        value=(Shell("$DLRUN_RUN_DIR"), "/tensorboard"),
        because="a directory that all starts of a run share; transformers 5 reads it, other programs pass it to SummaryWriter",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/integrations/integration_utils.py",
        every=True,
    ),
)  # fmt: skip
