"""Batch scripts, damaged: whatever is read from one is printed as a spec that parses."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

from dlrun.config.document import parse
from dlrun.config.source import decode_bytes
from dlrun.importing import read_script
from dlrun.importing.text import spec_text
from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import InvalidFile
from tests.fuzz import damage

ROOT = Path(__file__).parents[2]
MORE = """\
#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=4 --gres=gpu:a100:4,tmp:1G --dependency=afterok:12:13 --signal=B:USR1@120
#PBS -l select=2:ncpus=8:mpiprocs=4:mem=10gb+1:ncpus=1 -l walltime=1:00:00 -W depend=afterok:1.pbs
NODES=$(wc -l < $PBS_NODEFILE); RANKS=4
TOTAL=$((NODES * RANKS)) # all
if [ -d "$SCRATCH" ]; then
  cd "$SCRATCH"
fi
cat > hosts <<END
n1
END
module load a/1 b && source ~/venv/bin/activate
export A='x y' OMP_NUM_THREADS=8
mpiexec -n ${TOTAL} --ppn $RANKS --env X=1 -genv Y 2 bash -c "source x; python -m train '--a=\\$R' | tee l" > out 2>&1
srun -n 8 --container-image=a.sqsh apptainer exec --nv -B /a,/b image.sif accelerate launch --num_processes 8 -m train "" | tee ""
numactl -m 0 horovodrun -np 4 -H a:2,b:2 python t.py ; wait
"""
"""What the other scripts do not have."""
_LAUNCHES = re.compile(r"^(?:srun|mpiexec|numactl).*\n", re.MULTILINE)


@cache
def _scripts() -> list[str]:
    """The guide's and the tests' own batch scripts, and one for each launch line of MORE."""
    own = sorted((ROOT / "tests" / "unit" / "importing" / "scripts").glob("*.[sp]b*"))
    guide = (ROOT / "docs" / "guide" / "from-your-script.md").read_text("utf-8").split("```")[1::2]
    shown = [block.partition("\n")[2] for block in guide if "#SBATCH" in block or "#PBS" in block]
    more = [_LAUNCHES.sub("", MORE) + line for line in _LAUNCHES.findall(MORE)]
    return [*(path.read_text("utf-8") for path in own), *shown, *more]


def _moved(good: str, chance: random.Random) -> str:
    """The text with a few words gone, elsewhere, or replaced by signs of the shell: a script still, for the most part."""
    words = re.split(r"(\s+)", good)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(words))
        words[at] = chance.choice(('""', "''", "-", "--", "=", "$", "${}", "|", ";", "", *words))
    return "".join(words)


def case(_place: Path, chance: random.Random) -> None:
    """A batch script, to the text of a spec."""
    good = chance.choice(_scripts())
    text = _moved(good, chance) if chance.random() < 0.5 else damage.text(good, chance)
    script, problem = decode_bytes(text.encode("utf-8", "replace"), "job.sh", Layer.SPEC)
    if problem is not None:
        raise InvalidFile([problem])
    draft = read_script(script, "job.sh")
    printed = spec_text(draft, "job.sh")
    if draft.get("command") or draft.get("run"):
        document = parse(printed, Origin(layer=Layer.SPEC, name="spec.yaml"))
        assert not document.problems, document.problems
