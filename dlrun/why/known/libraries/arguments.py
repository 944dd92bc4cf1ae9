"""Errors of what reads the arguments and the configuration of a training: Hydra, click, absl, jsonargparse, fire, gin, yacs."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_HYDRA = "https://github.com/facebookresearch/hydra/blob/main/hydra/_internal/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="arguments and configurations",
        source="https://docs.python.org/3/library/argparse.html",
        forms=(
            Form(
                cause="configuration",
                texts=(),
                regex=r"^(?:[\w.]+Exception: |In '[^']+': )+Could not (?:find|load) '([^']+)'\.?\s*$",
                source=_HYDRA + "config_loader_impl.py",
                means="Hydra found no configuration of this name: {1}",
                check="the lines below it have the names that there are, and where it searched",
                next="correct the name in the overrides or in `defaults`, or the directory (`--config-path`, `--config-dir`)",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=(),
                regex=r"\bKeyError: \"Override '([^']+)' not found in: ",
                source="https://github.com/speechbrain/speechbrain/issues/2868",
                means="HyperPyYAML was given an override that the file of hyperparameters does not have: {1}",
                next="correct the name; where it is `local-rank`, the launcher adds it: start the ranks with torchrun (`framework: torch`), and a SpeechBrain that reads `LOCAL_RANK`",
            ),
            Form(
                cause="configuration",
                texts=(
                    "Primary config module '{1}' not found",
                    "Primary config directory not found",
                    "Cannot find primary config '{1}'",
                    "Could not append to config. {1}",
                    "Could not delete from config. {1}",
                    "You must specify '{1}', e.g",
                    "Error parsing override '{1}'",
                    "Error merging override {1}",
                    "Error when parsing index: {1}",
                    "Multiple values for {1}. To override a value use",
                ),
                source=_HYDRA + "config_loader_impl.py",
                means="Hydra rejected the configuration or an override: {1}",
                next="correct the override or the configuration's name and directory: `dlrun plan --script` shows the arguments as the program gets them",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=(),
                regex=r"^\W*(?:[│|] |Error: )((?:Missing (?:option|argument|parameter|command)|No such (?:option|command)|Invalid value for|Got unexpected extra argument|Option '?-[^ ]+ (?:requires|does not)|Unrecognized (?:or misplaced )?(?:options?|arguments?)|(?:The following|Required) (?:arguments?|options?)\b)(?:.*[^\s│|])?)\s*[│|]?$",
                source="https://click.palletsprojects.com/en/stable/exceptions/",
                means="the program rejected its arguments: {1}",
                next="correct the command's arguments: `dlrun plan --script` shows them as the program gets them",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=(
                    "Flags parsing error: {1}",
                    "UnrecognizedFlagError: {1}",
                    "IllegalFlagValueError: {1}",
                    "ERROR: Could not consume arg: {1}",
                    "ERROR: The function received no value for the required argument: {1}",
                    "arguments are not used by the HfArgumentParser: {1}",
                    "keys are not used by the HfArgumentParser: {1}",
                    "error: Parser key {1}:",
                    "is required but not included in config object",
                    "error: Problem with given class_path {1}",
                    "error: Validation failed: {1}",
                    "Non-existent config key: {1}",
                    "Non-existent key: {1}",
                    "No configurable matching {1}",
                    "Required bindings for {1} not provided in config",
                    "Type mismatch ({}) with values ({}) for config key: {1}",
                    "draccus.utils.DecodingError: {1}",
                    "ConfigAttributeError: {1}",
                    "ConfigKeyError: {1}",
                    "InterpolationKeyError: {1}",
                    "InterpolationResolutionError: {1}",
                ),
                source="https://github.com/abseil/abseil-py/blob/main/absl/flags/_exceptions.py",
                means="the program rejected its arguments or its configuration: {1}",
                next="correct the name or the value in the command's arguments (`dlrun plan --script` shows them as the program gets them) or in its configuration file",
                passing=True,
            ),
        ),
    ),
)
