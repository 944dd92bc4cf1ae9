"""Ten batch scripts of public repositories in the lines that matter to their launch, and what `dlrun run` makes of that.

Directives are scaled to two nodes of eight cores and four GPUs, arguments shortened; the rest of a script is not here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Script:
    """Where the script is, its lines before the launch, the launch, the line that replaces it, and what follows.

    program: the file that is the training.
    """

    source: str
    before: str
    launch: str
    changed: str
    program: str
    after: str = ""

    @property
    def text(self) -> str:
        """The script as its authors have it."""
        return f"#!/bin/bash\n{self.before}{self.launch}{self.after}"

    @property
    def new(self) -> str:
        """The script with the one line changed."""
        return f"#!/bin/bash\n{self.before}{self.changed}{self.after}"


_ADDRESS = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\nexport MASTER_PORT=12802\n'
_MEETING = "export RDZV_HOST=$(hostname)\nexport RDZV_PORT=29400\n"

SCRIPTS = (
    Script(
        "PrincetonUniversity/multi_gpu_training@2e975addb4792eaea66ce56de700675b99f43318:02_pytorch_ddp/job.slurm",
        "#SBATCH --nodes=2                # node count\n#SBATCH --ntasks-per-node=2\n#SBATCH --cpus-per-task=2\n"
        "#SBATCH --gres=gpu:2\n#SBATCH --time=00:05:00\n\n"
        "export WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))\n"
        f"{_ADDRESS}module purge\nmodule load anaconda3/2024.2\nconda activate torch-env\n\n",
        "srun python mnist_classify_ddp.py --epochs=2\n",
        "dlrun run --ranks-per-node 2 -- python mnist_classify_ddp.py --epochs=2\n",
        "mnist_classify_ddp.py",
    ),
    Script(
        "CSCfi/pytorch-ddp-examples@4467e84197ea364e4b4629e96f78e19e3c3a5907:run-ddp-gpu8.sh",
        "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task=8\n#SBATCH --mem=0\n#SBATCH --time=15\n"
        f"#SBATCH --gres=gpu:4\n\nmodule purge\nmodule load pytorch\n\n{_MEETING}\n"
        "# srun python3 -m torch.distributed.run \\\n#     mnist_ddp.py --epochs=100\n",
        "srun torchrun \\\n    --nnodes=$SLURM_JOB_NUM_NODES \\\n    --nproc_per_node=4 \\\n    --rdzv_id=$SLURM_JOB_ID \\\n"
        '    --rdzv_backend=c10d \\\n    --rdzv_endpoint="$RDZV_HOST:$RDZV_PORT" \\\n    mnist_ddp.py --epochs=100\n',
        "dlrun run --ranks-per-node 4 -- python mnist_ddp.py --epochs=100\n",
        "mnist_ddp.py",
    ),
    Script(
        "CSCfi/llm-fine-tuning-examples@42dd769f55d4a3dbc275384e6b9e8a04aaff7dd9:run-finetuning-lumi-gpu16.sh",
        "#SBATCH --nodes=2\n#SBATCH --tasks-per-node=1\n#SBATCH --cpus-per-task=8\n#SBATCH --time=0:15:00\n"
        f"#SBATCH --gpus-per-node=4\n\nmodule purge\nOUTPUT_DIR=$PWD/hf-data\nmkdir -p $OUTPUT_DIR\n{_MEETING}set -xv\n\n",
        'srun torchrun \\\n     --rdzv_id=$SLURM_JOB_ID \\\n     --rdzv_backend=c10d \\\n     --rdzv_endpoint="$RDZV_HOST:$RDZV_PORT" \\\n'
        "     --nnodes=2 \\\n     --nproc-per-node=${SLURM_GPUS_PER_NODE} \\\n     finetuning.py $* \\\n     --output-path $OUTPUT_DIR \\\n"
        "     --num-workers 7\n",
        'dlrun run --nodes 2 --ranks-per-node "${SLURM_GPUS_PER_NODE}" -- python finetuning.py $* \\\n     --output-path $OUTPUT_DIR \\\n'
        "     --num-workers 7\n",
        "finetuning.py",
    ),
    Script(
        "mlfoundations/open_clip@89fb801f1e6087880e951fc8354b8a2077b79c6d:docs/script_examples/stability_example.sh",
        "#SBATCH --nodes 2\n#SBATCH --ntasks-per-node=8\n#SBATCH --cpus-per-task=1\n#SBATCH --comment=laion\n#SBATCH --exclusive\n\n"
        f'module load openmpi\n{_ADDRESS}mkdir -p src\ncd src\nexport PYTHONPATH="$PYTHONPATH:$PWD/.."\n\n',
        "srun --comment laion --cpu_bind=v --accel-bind=gn python -m open_clip_train.main \\\n"
        '    --train-data="pipe:aws s3 cp s3://data/{laion2B-data/{000000..231349}.tar,more/{000000..226687}.tar} -" \\\n'
        "    --name ${EXP_NAME:-test-B-32} \\\n    --resume \"latest\"",
        "dlrun run --ranks-per-node 8 -- python -m open_clip_train.main \\\n"
        '    --train-data="pipe:aws s3 cp s3://data/{laion2B-data/{000000..231349}.tar,more/{000000..226687}.tar} -" \\\n'
        "    --name ${EXP_NAME:-test-B-32} \\\n    --resume \"latest\"",
        "open_clip_train/main.py",
    ),
    Script(
        "SLAMPAI/open_clip_scaling@9c108b8563043d9f93850c99aa08ae3ded17ac6f:configs/const_lr/train.sbatch",
        "#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n#SBATCH --ntasks-per-node=4\n#SBATCH --cpus-per-task=2\n#SBATCH --time=5\n"
        f"ml purge\nexport CUDA_VISIBLE_DEVICES=0,1,2,3\n{_ADDRESS}"
        'if [ "True" = "True" ]; then\n    SIGLIP="--siglip"\nelse\n    SIGLIP=""\nfi\nPRETRAINED=""\n',
        "srun --cpu_bind=none,v --accel-bind=gn --cpus-per-task=2 python -u open_clip_train/main.py \\\n"
        "    --dataset-type webdataset --dataset-resampled\\\n    --batch-size 4 $SIGLIP $PRETRAINED\\\n    --workers=8\n",
        "dlrun run --ranks-per-node 4 -- python -u open_clip_train/main.py \\\n"
        "    --dataset-type webdataset --dataset-resampled\\\n    --batch-size 4 $SIGLIP $PRETRAINED\\\n    --workers=8\n",
        "open_clip_train/main.py",
    ),
    Script(
        "ORNL/HydraGNN@d251f81627e6677c8636babe52ec0b020b2d27b7:run-scripts/SC25-job-weak.sh",
        '#SBATCH -t 00:05:00\n#SBATCH -N 2\n#SBATCH --exclusive --gpus-per-node=4\n##SBATCH -S 1\n\nSCOREP_OPT=""\n'
        "[ -z $BATCH_SIZE ] && BATCH_SIZE=160\nexport BATCH_SIZE=$BATCH_SIZE\n\n",
        "srun -N$SLURM_JOB_NUM_NODES -n$((SLURM_JOB_NUM_NODES*4)) -c2 --gpus-per-task=1 --gpu-bind=closest \\\n"
        "python -u $SCOREP_OPT ./examples/train.py --log=GFM-NN$SLURM_JOB_NUM_NODES-BS$BATCH_SIZE-TP0 \\\n"
        "--num_samples=$((BATCH_SIZE*5))\n",
        'dlrun run --nodes "$SLURM_JOB_NUM_NODES" --set resources.ranks="$((SLURM_JOB_NUM_NODES*4))" -- '
        "python -u $SCOREP_OPT ./examples/train.py --log=GFM-NN$SLURM_JOB_NUM_NODES-BS$BATCH_SIZE-TP0 \\\n"
        "--num_samples=$((BATCH_SIZE*5))\n",
        "examples/train.py",
        "\nsleep 1\n",
    ),
    Script(
        "amd/HPCTrainingExamples@aaaa72d4dca9a9c3587be883deaf2d0f109fcbfb:"
        "MLExamples/PyTorch_Profiling/no-profiling/slurm.sh",
        "#SBATCH --nodes=1\n#SBATCH --ntasks=4 # N GPUs per node * number of nodes\n#SBATCH --gpus-per-node=4\n\n"
        'if [[ -z "${MASTER_ADDR}" ]]; then\n    export MASTER_ADDR=`hostname`\nfi\nTOP_DIR=$PWD\npushd ${TOP_DIR}\n'
        "if [ ! -f data/cifar ]; then\n   mkdir -p data; touch data/cifar\nfi\npopd\n\n",
        "srun --nodes=1 --ntasks=4 python3 ${TOP_DIR}/train_cifar_100.py --data-path ${TOP_DIR}/data\n",
        "dlrun run --nodes 1 --ranks-per-node 4 -- python3 ${TOP_DIR}/train_cifar_100.py --data-path ${TOP_DIR}/data\n",
        "train_cifar_100.py",
    ),
    Script(
        "Rodrigo163/DL-Project@9008f565e268b33d48941c407dfec7195aa9712b:pl_version/pl_submit.sh",
        "#SBATCH --nodes=2\n#SBATCH --gres=gpu:2\n#SBATCH --ntasks-per-node=2\n#SBATCH --time=2-0:00:00 #d-hrs:min:sec\n\n"
        "module purge\nmodule load python/3.8.2\nset\n",
        "srun ipython pl_train.py\n",
        "dlrun run --ranks-per-node 2 -- ipython pl_train.py\n",
        "pl_train.py",
    ),
    Script(
        "Aditya-tumcse/CaDeX@1deae677ca2160c72ad596b5041446f3614f37e8:train.sbatch",
        "#SBATCH --mail-type=NONE\n#SBATCH --nodes=1\n#SBATCH --cpus-per-task=2\n#SBATCH --gres=gpu:2\n#SBATCH --time=12:00:00\n\n"
        "module load cuda/11.0\nmkdir -p code\ncd code\n",
        "srun -u python3 ../run.py --config configs/dfaust_w_st.yaml -f",
        "dlrun run --ranks-per-node 1 -- python3 ../run.py --config configs/dfaust_w_st.yaml -f",
        "run.py",
    ),
    Script(
        "Vmjkom/nanotron@bab10900b3f35ac6f45f8db01bf7fcccd4b98841:tools/launch.sh",
        "#SBATCH -N 1\n#SBATCH -p small\n#SBATCH --cpus-per-task=8\n#SBATCH --time=04:00:00\n#SBATCH --ntasks-per-node=1\n\nset -xeo\nmodule purge\n"
        f'{_ADDRESS}\necho "Starting preprocessing"\n',
        "torchrun --nproc-per-node=$SLURM_CPUS_PER_TASK --standalone preprocess_data.py \\\n    --input data/fineweb-100B \\\n"
        "    --output-prefix data/100BT\n",
        'dlrun run --nodes 1 --ranks-per-node "$SLURM_CPUS_PER_TASK" -- python preprocess_data.py \\\n    --input data/fineweb-100B \\\n'
        "    --output-prefix data/100BT\n",
        "preprocess_data.py",
        'echo "Done"\n#echo "Done"\n',
    ),
)  # fmt: skip
