#!/bin/bash
# flux: -N 2 -x
# flux: --nslots=2 --gpus-per-slot=4
# flux: -t 1.5h --queue=pbatch
# flux: --bank=guests
#flux: --job-name=resnet
# flux: --output=out.{{id}}.txt
# flux: --requires=host:tuo[1-4]
# flux: --dependency=afterok:f2Yx
# flux: --dependency=afterany:f2Yz
# flux: --setattr=thp=always
# flux: -o mpibind=off
# flux: --signal=USR1@120s
module load rocm/6.3
export NCCL_DEBUG=WARN
flux resource list
flux run -N2 --tasks-per-node=4 -g1 -c 24 -o mpibind=off --label-io python train.py --lr 0.1
