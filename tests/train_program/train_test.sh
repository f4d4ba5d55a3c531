#!/bin/sh
# SPDX-License-Identifier: MIT
# The main program from outside: train_test.sh CASE BIN CORPUS [RUNNER...], in an empty folder of its
# own. RUNNER: what stands before programs that want a GPU. Status 77: there is none.
# A case ends with status 0 only if it has checked something; each check says what it saw.
set -u
case_name=$1 bin=$2 corpus=$3
train=$bin/train sample=$bin/sample
if [ $# -gt 3 ]; then
    shift 3
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$*" "$train" >train.sh
    chmod +x train.sh
    train=$PWD/train.sh
fi
checks=0
fail() { echo "FAILED: $*" >&2; exit 1; }
ok() { checks=$((checks + 1)); }

# refused STATUS TEXT command...: this status, TEXT in its one line on stderr, nothing on stdout.
refused() {
    want=$1 text=$2; shift 2
    "$@" >out.txt 2>err.txt </dev/null; status=$?
    [ "$status" = "$want" ] || fail "status $status, wanted $want: $* ($(cat err.txt))"
    grep -v '^\(model\|precision\|data\|ranks\|run\|memory\|folder\|  [a-z]\|step\)' err.txt >lines.txt
    [ "$(wc -l <lines.txt)" = 1 ] || fail "more than one line: $(cat lines.txt)"
    grep -qF -- "$text" lines.txt || fail "wanted '$text' in: $(cat lines.txt)"
    [ ! -s out.txt ] || fail "something on stdout: $(cat out.txt)"
    ok
}
# same A B: the same bytes.
same() { cmp "$1" "$2" >&2 || fail "$1 and $2 differ"; ok; }
differ() { cmp -s "$1" "$2" && fail "$1 and $2 are the same"; ok; }
# rows FILE: metrics without what the clock says.
rows() { sed 's/,"tokens_per_s":[^}]*//' "$1"; }
# saved RUN: the folder of its newest checkpoint, which `latest` names.
saved() { echo "$1/checkpoints/$(sed 's/ .*//' "$1/checkpoints/latest")"; }
# files_of RUN: its newest checkpoint in one stream; files_of RUN tensors: without the options.
files_of() { for f in "$(saved "$1")"/*.safetensors; do cat "$f"; done
             [ "${2:-}" = tensors ] || cat "$(saved "$1")/manifest.json"; }
# same_run A B: their newest checkpoints hold the same bytes, and so the same state.
same_run() { files_of "$1" >a.all; files_of "$2" >b.all; same a.all b.all; }
differ_run() { files_of "$1" tensors >a.all; files_of "$2" tensors >b.all; differ a.all b.all; }
tiny() { "$train" --data "$corpus" --layers 2 --channels 32 --heads 4 --context 32 --batch 4 \
             --steps 12 --sample-tokens 20 "$@"; }
# On several ranks. six: a small run of two micro-batches of a row a rank.
six() { "$train" --data "$corpus" --layers 2 --channels 32 --heads 4 --context 32 --batch 1 --micro-batches 2 \
            --steps 6 --validate-every 6 --sample-tokens 3 "$@" >out.txt 2>err.txt || fail "$* ($(tail -n 1 err.txt))"; }
overflows='--precision fp16 --dropout 0.1 --scale-start 5e5' # in its first step
equal() { grep -q 'ranks: measured and formula are equal$' out.txt || fail "$*: $(cat out.txt)"; ok; }
# like A B: losses, norms, scales, validation and all that was saved are the same bits.
like() { rows "$1/metrics.jsonl" >a.rows; rows "$2/metrics.jsonl" >b.rows; same a.rows b.rows
         same "$1/validation.jsonl" "$2/validation.jsonl"; same_run "$1" "$2"; }
# endless &: a run whose states are in nine pieces a rank. begun RUN: it has taken a step.
endless() { exec "$train" --data "$corpus" --layers 8 --channels 32 --heads 4 --context 32 --batch 1 --steps 100000 --validate-every 100000 "$@"; }
begun() { n=0; until [ -s "$1/metrics.jsonl" ]; do n=$((n + 1)); [ $n -lt 900 ] || fail "it does not begin: $(cat err.txt)"; sleep 0.1; done; }

case $case_name in
bad_input)
    refused 2 '--no-such-option' "$train" --no-such-option
    refused 2 '--precision' "$train" --precision fp17
    refused 2 '--batch 0: wanted 1 or more' "$train" --batch 0
    refused 2 '--steps 0: wanted 1 or more' "$train" --steps 0
    refused 2 '--micro-batches 0' "$train" --micro-batches 0
    refused 2 '--dropout 1: wanted 0 up to below 1' "$train" --dropout 1
    refused 2 '--lr -1: wanted more than 0' "$train" --lr -1
    refused 2 '--scale zero: wanted dynamic' "$train" --scale zero
    refused 2 '--products' "$train" --products cutlass
    refused 2 '--products cublas with --device cpu: it is a library for GPUs' "$train" --products cublas
    refused 2 '--products cublas with --device emulator' "$train" --products cublas --device emulator
    refused 2 '--products kernels with --device cpu: the CPU multiplies by' "$train" --products kernels
    refused 2 '--scale 0: wanted dynamic' "$train" --scale 0
    refused 2 '--scale 1e-40: wanted dynamic' "$train" --scale 1e-40
    refused 2 '--scale-start 9.99995e-41: wanted 1.2e-38 or more' "$train" --scale-start 1e-40 --scale-min 0
    refused 2 '--scale-start inf: wanted 1.2e-38 or more, and finite' "$train" --scale-start inf
    refused 2 '--scaler' "$train" --scaler apex
    refused 2 '--scale-hysteresis: --scaler grad has no hysteresis; add --scaler deepspeed' "$train" --scale-hysteresis 2
    refused 2 '--scale-consecutive-hysteresis: --scaler grad has no' "$train" --scale-consecutive-hysteresis
    refused 2 '--scaler deepspeed: the scale is fixed at 1 with --precision bf16' "$train" --scaler deepspeed --precision bf16
    refused 2 '--scaler deepspeed: the scale is fixed by --scale 8' "$train" --scaler deepspeed --scale 8
    refused 2 '--scale-start: the scale is fixed at 1 with --precision tf32' "$train" --scale-start 1024 --precision tf32
    refused 2 '--scale-min: the scale is fixed by --scale 8' "$train" --scale 8 --scale-min 1
    refused 2 '--scale-interval: the scale is fixed at 1' "$train" --scale-interval 9 --precision bf16
    refused 2 '--scale-min 0: --scaler deepspeed has a floor' "$train" --scaler deepspeed --scale-min 0
    refused 2 '--scale-hysteresis 0: wanted 1 or more' "$train" --scaler deepspeed --scale-hysteresis 0
    refused 2 '--scale-interval -1: wanted 0 or more' "$train" --scale-interval -1
    refused 2 '--optimizer' "$train" --optimizer adagrad
    refused 2 '--schedule' "$train" --schedule step
    refused 2 '--moments with --optimizer adam8bit: it has no use for that' "$train" --optimizer adam8bit --moments bf16
    refused 2 '--moments' "$train" --moments fp8
    refused 2 '--momentum with --optimizer adamw: it has no use for that' "$train" --momentum 0.9
    refused 2 '--momentum 1: wanted 0 up to below 1' "$train" --optimizer sgd --momentum 1
    refused 2 '--beta1 with --optimizer sgd' "$train" --optimizer sgd --beta1 0.9
    refused 2 '--warmup with --schedule constant' "$train" --schedule constant --warmup 5
    refused 2 '--min-lr with --schedule constant' "$train" --schedule constant --min-lr 0
    refused 2 '--warmup 1 with --schedule warmup-log: wanted 2 or more' "$train" --schedule warmup-log --warmup 1
    for precision in fp32 tf32; do
        refused 2 "--stochastic-rounding with --precision $precision: its weights are fp32" \
            "$train" --stochastic-rounding --precision $precision
    done
    refused 2 '--device' "$train" --device tpu
    refused 2 '--ranks 0: wanted 1 or more ranks' "$train" --ranks 0
    refused 2 '--reduce' "$train" --reduce never
    refused 2 '--zero 4: wanted 0, 1, 2 or 3' "$train" --zero 4
    refused 2 '--zero -1: wanted 0, 1, 2 or 3' "$train" --zero -1
    refused 2 '--narrate with one rank: it gathers and frees nothing' "$train" --narrate
    refused 2 'RANK=1 WORLD_SIZE=4: on the CPU ranks are processes of MPI; start with mpirun -n 4' \
        env RANK=1 WORLD_SIZE=4 "$train"
    refused 2 'WORLD_SIZE is set and RANK is not' env WORLD_SIZE=4 "$train"
    refused 1 'train: rank ' "$train" --ranks 3 --data nothing.txt
    refused 2 '--ranks 2 with --device cuda: ranks on GPUs are processes; start them with torchrun' "$train" --ranks 2 --device cuda
    refused 2 '--zero 3 with --device cuda: one process has nothing to share out' "$train" --zero 3 --device cuda
    refused 2 '--sums nccl with --device cpu: it is of processes that speak NCCL' "$train" --ranks 2 --sums nccl
    refused 2 '--device-memory lots: not a number of bytes' "$train" --device-memory lots
    refused 2 '--offload' "$train" --offload disk
    refused 2 '--offload file: in which folder? Give --offload-dir DIR' "$train" --offload file
    refused 2 '--offload-dir . with --offload host: nothing is kept there' "$train" --offload host --offload-dir .
    refused 2 '--offload-dir . with --offload none: nothing is kept there' "$train" --offload-dir .
    refused 2 '--offload-dir nowhere: is no folder; make it' "$train" --offload file --offload-dir nowhere
    refused 2 'fast disk with 12 bytes a parameter free' "$train" --offload file --offload-dir nowhere --zero 2
    refused 2 'fast disk with 14 bytes a parameter free' "$train" --offload file --offload-dir nowhere --zero 3
    refused 2 'fast disk with 16 bytes a parameter free' "$train" --offload file --offload-dir nowhere --zero 3 --precision tf32
    refused 2 'fast disk with 8 bytes a parameter free' "$train" --offload file --offload-dir nowhere --optimizer sgd
    refused 2 'fast disk with 4 bytes a parameter free' "$train" --offload file --offload-dir nowhere --optimizer sgd --momentum 0
    : >plain; refused 2 '--offload-dir plain: is no folder' "$train" --offload file --offload-dir plain
    refused 1 'states /proc/rank0-piece0.states: cannot be made (' "$train" --data "$corpus" --offload file --offload-dir /proc
    refused 1 'weights /proc/rank0-unit0.weights: cannot be made (' "$train" --data "$corpus" --zero 3 --offload file --offload-dir /proc
    refused 2 '--offload with --optimizer lamb: it needs a whole tensor' "$train" --offload host --optimizer lamb
    refused 2 '--offload with --optimizer adam8bit: it needs a whole tensor before it moves a weight, or keeps moments in other forms' \
        "$train" --offload host --optimizer adam8bit
    refused 2 '--offload with --moments bf16: ' "$train" --offload host --moments bf16
    refused 2 '--offload host with --stochastic-rounding: weights would lose' "$train" --offload host --stochastic-rounding
    for device in emulator cuda; do
        refused 2 "--offload host with --device $device: steps are the device's own there" "$train" --offload host --device $device
    done
    refused 2 '--stop-after 20 of --steps 12' "$train" --steps 12 --stop-after 20
    refused 2 '--warmup 12 of --steps 12' "$train" --steps 12 --warmup 12
    refused 2 '--layers' "$train" --layers two
    refused 2 '--norm' "$train" --norm batch
    for scale in yes nan 1x; do
        refused 2 "--residual-scale $scale: wanted none, or a finite number as 0 or 1" "$train" "--residual-scale=$scale"
    done
    refused 2 '--checkpoint-activations: checkpointing every:3: the model has 2 blocks; choose segments of 1 to 2' \
        "$train" --layers 2 --checkpoint-activations every:3
    refused 2 '--checkpoint-activations: checkpointing blocks:4: the model has 4 blocks; choose from 0 to 3' \
        "$train" --checkpoint-activations blocks:0,4
    refused 2 '--checkpoint-activations: checkpointing all: wanted none, every:K' "$train" --checkpoint-activations all
    refused 1 'data nothing.txt: cannot be opened' "$train" --data nothing.txt
    : >empty.txt
    refused 1 'data empty.txt: is empty' "$train" --data empty.txt
    refused 1 'data .: is a folder' "$train" --data .
    echo short >short.txt
    refused 1 'wanted at least 129 of each for a context of 128' "$train" --data short.txt
    printf 'not tokens' >wrong.bin
    refused 1 'data wrong.bin' "$train" --data wrong.bin
    refused 1 '33 channels do not divide by 4 heads' "$train" --data "$corpus" --channels 33
    refused 1 '4 heads do not divide by 3 key/value heads' "$train" --data "$corpus" --kv-heads 3
    mkdir taken && echo mine >taken/file
    refused 1 '--out taken: is occupied; add --resume' "$train" --data "$corpus" --out taken
    [ "$(cat taken/file)" = mine ] || fail 'taken/file was changed'; ok
    refused 1 '--out file.txt' sh -c ': >file.txt; exec "$0" --data "$1" --out file.txt' "$train" "$corpus"
    refused 2 'checkpoint taken' "$train" --resume --out taken
    refused 2 'no checkpoint under runs/' "$train" --resume
    [ ! -e runs ] || [ -z "$(ls runs)" ] || fail "a refused run left $(ls runs)"; ok
    if [ "$(id -u)" != 0 ]; then
        mkdir locked && chmod 555 locked
        refused 1 '--out locked/run: cannot be created' "$train" --data "$corpus" --out locked/run
    fi
    refused 1 '--out /proc/none: cannot be created' "$train" --data "$corpus" --out /proc/none
    refused 2 'DIR is required' "$sample"
    refused 1 'checkpoint nowhere' "$sample" nowhere
    refused 2 '--tokens -1' "$sample" nowhere --tokens -1
    ;;
budget)
    refused 1 'bytes; of the budget of 1048576' tiny --device-memory 1M --out run
    grep -q 'held and .* free, the largest free block' err.txt || fail "numbers are missing: $(cat err.txt)"; ok
    [ ! -e run ] || fail 'a refused run left its folder'; ok
    tiny --device-memory 256M --out run >out.txt 2>err.txt || fail "256 MiB are plenty: $(cat err.txt)"; ok
    ;;
faults)
    # A learning rate without measure: the loss is NaN, at scale 1, and the run says so.
    tiny --precision fp32 --lr 1e30 --clip 0 --out nan >out.txt 2>err.txt && fail 'a NaN loss went on'
    grep -q 'train: step [0-9]*: loss is' err.txt || fail "no word of the loss: $(cat err.txt)"; ok
    # A scale too high for fp16 that may not fall: every step is skipped, and the run ends.
    tiny --scale 1e12 --out fixed >out.txt 2>err.txt && fail 'a hopeless fixed scale went on'
    grep -q 'steps in a row skipped at the fixed scale' err.txt || fail "$(cat err.txt)"; ok
    # At its floor: one more overflow is an error that names the tensor.
    tiny --scale-start 1e12 --scale-min 5e11 --out floor >out.txt 2>err.txt && fail 'the floor was passed'
    grep -q 'not finite, first in .* at the smallest scale' err.txt || fail "$(cat err.txt)"; ok
    # A dynamic scale that starts too high comes down, says why, and the run goes on.
    tiny --scale-start 1e9 --out down >out.txt 2>err.txt || fail "$(cat err.txt)"
    grep -q 'step 1: .* gradients not finite, first in .*; scale 1e+09 -> 5e+08; step skipped' err.txt ||
        fail "no reason: $(cat err.txt)"; ok
    grep -q '"skipped":true' down/metrics.jsonl || fail 'no skipped row'; ok
    grep '"skipped":true' down/metrics.jsonl | grep -q '"grad_norm":null' || fail 'a norm of infinity'; ok
    # ... and the warm-up waits for the first applied step
    lr=$(grep '"skipped":true' down/metrics.jsonl | sed 's/.*"lr":\([^,]*\),.*/\1/' | sort -u | wc -l)
    [ "$lr" = 1 ] || fail 'the schedule ran on over skipped steps'; ok
    # DeepSpeed's scaler keeps the scale at the first overflow, halves it at the second, and says so.
    tiny --scaler deepspeed --scale-start 1e9 --out hysteresis >out.txt 2>err.txt || fail "$(cat err.txt)"
    grep -q 'step 1: .*, hysteresis 2 -> 1; scale stays 1e+09; step skipped' err.txt || fail "$(cat err.txt)"; ok
    grep -q 'step 2: .*; scale 1e+09 -> 5e+08; step skipped' err.txt || fail "$(cat err.txt)"; ok
    tiny --scaler deepspeed --scale-start 1e12 --scale-min 1e12 --scale-hysteresis 1 --out minimum >out.txt 2>err.txt &&
        fail 'the minimum was passed'
    grep -q 'Current loss scale already at minimum - cannot decrease scale anymore' err.txt || fail "$(cat err.txt)"; ok
    ;;
resume)
    for how in "--optimizer adam --precision bf16 --stochastic-rounding --micro-batches 2" \
               "--optimizer sgd --lr 0.1 --schedule warmup-log --stochastic-rounding" \
               "--optimizer sgd --momentum 0 --lr 0.1 --precision bf16 --schedule constant" \
               "--optimizer lamb --lr 0.02 --precision fp32 --schedule warmup-linear --min-lr 0.001" \
               "--optimizer adam8bit --precision fp16 --micro-batches 2" "--optimizer adam8bit --precision fp32" \
               "--optimizer adam8bit --precision bf16 --stochastic-rounding" "--moments bf16 --precision bf16" \
               "--precision fp16 --dropout 0.1 --micro-batches 2 --scale-start 4096 --scale-interval 4" "--precision bf16" "--precision fp32" \
               "--norm tfixup --precision fp16 --warmup 0" \
               "--residual-scale 0 --dropout 0.1 --checkpoint-activations every:1" \
               "--precision tf32" "--precision fp16 --scale-start 1e9 --kv-heads 1" \
               "--scaler deepspeed --scale-start 2e5 --scale-interval 2 --scale-hysteresis 7" \
               "--scaler deepspeed --scale-start 4e5 --scale-interval 2 --scale-consecutive-hysteresis"; do
        rm -rf whole parts
        tiny $how --out whole >out.txt 2>err.txt || fail "$(cat err.txt)"
        tiny $how --out parts --stop-after 5 >out.txt 2>err.txt || fail "$(cat err.txt)"
        echo '{"step":6,"loss":1,"lr":1,"grad_norm":1,"loss_scale":1,"skipped":false,"tokens_per_s":1}' \
            >>parts/metrics.jsonl # a row after the checkpoint: it is dropped
        printf '{"step":7,"lo' >>parts/metrics.jsonl # and one that was cut
        "$train" --resume --out parts --data "$corpus" --threads 1 >out2.txt 2>err.txt || fail "$(cat err.txt)"
        grep -q '^resumed     parts/checkpoints/step-00000005, after step 5$' err.txt || fail "$(cat err.txt)"; ok
        same_run whole parts
        rows whole/metrics.jsonl >whole.rows; rows parts/metrics.jsonl >parts.rows
        same whole.rows parts.rows
        same whole/validation.jsonl parts/validation.jsonl
        [ "$(wc -l <whole.rows)" = 12 ] || fail "12 rows wanted: $(wc -l <whole.rows)"; ok
        # the ledger follows the optimizer: measured = formula
        grep -q 'total .* equal$' out2.txt || fail "$how: ledger and formula differ: $(cat out2.txt)"; ok
    done
    # ten and ten are twenty, with dropout, two micro-batches, and the scale inside its window
    twenty="--data $corpus --layers 2 --channels 32 --heads 4 --context 32 --batch 4 --steps 20 --sample-tokens 0"
    twenty="$twenty --precision fp16 --dropout 0.1 --micro-batches 2 --scale-start 4096 --scale-interval 4"
    "$train" $twenty --out twenty >out.txt 2>err.txt || fail "$(cat err.txt)"
    "$train" $twenty --stop-after 10 --out ten >out.txt 2>err.txt || fail "$(cat err.txt)"
    grep -q '"scaler._growth_tracker":"2"' "$(saved ten)/manifest.json" || fail "not inside a window: $(cat "$(saved ten)/manifest.json")"; ok
    "$train" --resume --steps 20 --out ten --data "$corpus" >out.txt 2>err.txt || fail "$(cat err.txt)"
    same_run twenty ten
    [ "$(rows ten/metrics.jsonl | sed 's/.*"loss_scale":\([0-9]*\).*/\1/' | sort -u | wc -l)" = 5 ] || fail 'the scale does not grow'; ok
    # sabotage: another seed, one step fewer, are other bytes
    tiny --precision fp16 --out other --seed 2 >out.txt 2>err.txt; differ_run whole other
    refused 2 '--resume: the run in whole has --channels 32, given is 64' "$train" --resume --out whole --channels 64
    refused 2 '--resume: the run in whole has --optimizer adamw, given is lamb' "$train" --resume --out whole --optimizer lamb
    refused 2 '--resume: the run in whole has --stochastic-rounding false, given is true' "$train" --resume --out whole --stochastic-rounding
    # another kind of model is refused by name, where the options say so and where the tensors do
    tiny --norm tfixup --out fixed >out.txt 2>err.txt || fail "$(cat err.txt)"
    refused 2 '--resume: the run in fixed has --norm tfixup, given is layernorm' "$train" --resume --out fixed --norm layernorm
    refused 2 '--resume: the run in fixed has --residual-scale none, given is 0' "$train" --resume --out fixed --residual-scale 0
    "$sample" fixed --tokens 3 >out.txt 2>err.txt || fail "sample: $(cat err.txt)"; ok
    # sabotage: another sequence of random bits, a decay in the gradient, are other bytes
    for how in "--seed 1" "--seed 2"; do
        tiny --precision bf16 --stochastic-rounding $how --out "rounded$how" >out.txt 2>err.txt || fail "$(cat err.txt)"
    done
    differ_run "rounded--seed 1" "rounded--seed 2"
    tiny --precision bf16 --optimizer adam --out adam >out.txt 2>err.txt; tiny --precision bf16 --out adamw >out.txt 2>err.txt
    differ_run adam adamw
    tiny --precision bf16 --moments bf16 --out low1 >out.txt 2>err.txt; tiny --precision bf16 --moments bf16 --seed 2 --out low2 >out.txt 2>err.txt
    differ_run low1 low2
    refused 2 '--resume: the run in whole has --steps 12, given is 24' "$train" --resume --out whole --steps 24
    # a scale that was saved by the other scaler, or by another version, is refused by name
    refused 2 '--resume: the run in whole has --scaler deepspeed, given is grad' "$train" --resume --out whole --scaler grad
    cp -R whole later && "$bin/edit_manifest" "$(saved later)" scaler.version 2 || fail 'edit_manifest'
    refused 1 'the saved state has version 2, wanted 1' "$train" --resume --out later --data "$corpus" --stop-after 0
    # the same text under another name goes on, a text that was changed does not
    head -c 100000 "$corpus" >text.txt; cp text.txt moved.txt
    own=$corpus; corpus=text.txt
    tiny --stop-after 6 --out part >out.txt 2>err.txt || fail "$(cat err.txt)"
    tiny --out straight_text >out.txt 2>err.txt || fail "$(cat err.txt)"
    corpus=$own
    printf 'X' | dd of=text.txt bs=1 seek=50000 conv=notrunc 2>/dev/null
    refused 1 'data text.txt: the CRC-32C of its tokens is' "$train" --resume --out part
    "$train" --resume --out part --data moved.txt >out.txt 2>err.txt || fail "$(cat err.txt)"
    files_of straight_text tensors >a.all; files_of part tensors >b.all; same a.all b.all
    before=$(find whole/checkpoints -type f -exec cksum {} + | sort)
    refused 1 'is occupied' tiny --out whole
    refused 2 "--from step-00000005: wanted the name" "$train" --out whole --from step-00000005
    [ "$(find whole/checkpoints -type f -exec cksum {} + | sort)" = "$before" ] || fail 'a checkpoint was changed'; ok
    # the middle of the run and the end give the same end; and an older checkpoint goes on, too
    tiny --precision fp16 --dropout 0.1 --save-every 4 --stop-after 8 --out middle >out.txt 2>err.txt || fail "$(cat err.txt)"
    "$train" --resume --out middle --from step-00000004 --data "$corpus" >out.txt 2>err.txt || fail "$(cat err.txt)"
    tiny --precision fp16 --dropout 0.1 --save-every 4 --out straight >out.txt 2>err.txt || fail "$(cat err.txt)"
    same_run middle straight
    [ "$(ls middle/checkpoints | wc -l)" = 3 ] || fail "wanted two checkpoints and latest: $(ls middle/checkpoints)"; ok
    # a crash between the last checkpoint's name and the pointer to it: nothing is left to train, yet all gets in order
    cp -R straight crashed; older=$(cd crashed/checkpoints && find . -name 'step-*' | sort | head -n 1 | sed 's|^..||')
    cp crashed/checkpoints/latest pointer
    crc=$(tail -n 1 "crashed/checkpoints/$older/manifest.json" | cut -d'"' -f4)
    echo "$older $crc" >crashed/checkpoints/latest
    cp -R "crashed/checkpoints/$older" crashed/checkpoints/step-00000001
    "$train" --resume --out crashed --data "$corpus" >out.txt 2>err.txt || fail "$(cat err.txt)"
    same pointer crashed/checkpoints/latest
    [ "$(ls crashed/checkpoints | wc -l)" = 3 ] || fail "wanted two checkpoints and latest: $(ls crashed/checkpoints)"; ok
    same_run crashed straight
    ;;
activations)
    # Activation checkpointing changes no bit, may be changed on resume, and stays within its formula.
    deep="--precision fp16 --dropout 0.1 --micro-batches 2 --layers 5"
    tiny $deep --out whole >out.txt 2>err.txt || fail "$(cat err.txt)"
    plain=$(sed -n 's/^  activations *\([0-9]*\) .*/\1/p' out.txt) total=$(sed -n 's/^  total *\([0-9]*\) .*/\1/p' out.txt)
    for plan in every:1 sqrt blocks:0,2; do
        rm -rf parts
        tiny $deep --checkpoint-activations $plan --out parts --stop-after 7 >out.txt 2>err.txt || fail "$(cat err.txt)"
        "$train" --resume --out parts --data "$corpus" >out.txt 2>err.txt || fail "$(cat err.txt)"
        grep -q 'total .* equal$' out.txt || fail "$plan: ledger and formula differ: $(cat out.txt)"; ok
        less=$(sed -n 's/^  activations *\([0-9]*\) .*/\1/p' out.txt)
        [ "$less" -lt "$plain" ] || fail "$plan: $less bytes of activations, $plain without"; ok
        rows whole/metrics.jsonl >whole.rows; rows parts/metrics.jsonl >parts.rows; same whole.rows parts.rows
        files_of whole tensors >whole.raw; files_of parts tensors >parts.raw; same whole.raw parts.raw
        grep -q "\"checkpoint-activations\":\"$plan\"" "$(saved parts)/manifest.json" || fail "$plan is not saved"; ok
    done
    rm -rf parts
    tiny $deep --checkpoint-activations every:2 --out parts --stop-after 7 >out.txt 2>err.txt || fail "$(cat err.txt)"
    "$train" --resume --out parts --checkpoint-activations every:5 --data "$corpus" >out.txt 2>err.txt || fail "$(cat err.txt)"
    files_of parts tensors >parts.raw; same whole.raw parts.raw
    refused 2 '--checkpoint-activations: checkpointing every:6: the model has 5 blocks' \
        "$train" --resume --out parts --checkpoint-activations every:6
    # A budget that is too small without it holds the run with it, its sample included.
    budget=$((total - 4096))
    refused 1 'activations asks' tiny $deep --device-memory $budget --out small
    tiny $deep --device-memory $budget --checkpoint-activations every:1 --out small >out.txt 2>err.txt || fail "$(cat err.txt)"; ok
    tiny $deep --dropout 0.2 --out other >out.txt 2>err.txt || fail "$(cat err.txt)"
    files_of other tensors >other.raw; differ whole.raw other.raw # sabotage
    ;;
damage)
    # What cannot be loaded is named, with found and expected, and the newest that is whole.
    tiny --save-every 4 --out good >out.txt 2>err.txt || fail "$(cat err.txt)"
    at=bad/checkpoints/step-00000012
    bad() { rm -rf bad; cp -R good bad; }
    older='; the newest checkpoint that is whole is bad/checkpoints/step-00000008'
    whole="$older; --from step-00000008 goes on from it"
    size=$(wc -c <good/checkpoints/step-00000012/master.safetensors)
    bad; head -c 1000 "$at/master.safetensors" >cut; mv cut "$at/master.safetensors"
    refused 2 "$at/master.safetensors: has 1000 bytes, its manifest says $size; it was cut short or exchanged$whole" "$train" --resume --out bad
    for program in sample inspect; do refused 1 "$older; give that folder to use it" "$bin/$program" bad; done
    refused 1 "$older; give that folder to use it" "$bin/export" bad --to bad.safetensors
    refused 2 "$older; --from step-00000008 goes on" "$train" --resume --out bad --from step-00000004
    "$sample" bad/checkpoints/step-00000008 --tokens 3 >out.txt 2>err.txt || fail "$(cat err.txt)"; ok
    bad; rm "$at/weights.safetensors"; refused 2 "$at/weights.safetensors: cannot be opened (No such file" "$train" --resume --out bad
    grep -qF -- "$whole" err.txt || fail "$(cat err.txt)"; ok
    bad; printf x | dd of="$at/moments.safetensors" bs=1 seek=5000 conv=notrunc 2>/dev/null
    refused 2 "$at/moments.safetensors: its CRC-32C is" "$train" --resume --out bad
    grep -qF -- "its bytes were changed$whole" err.txt || fail "$(cat err.txt)"; ok
    bad; sed -i 's/"version":1/"version":2/' "$at/manifest.json"
    refused 2 "$at/manifest.json: ends in" "$train" --resume --out bad
    bad; rm -r "$at"; refused 2 'latest: names "step-00000012", which is not in this folder' "$train" --resume --out bad
    bad; rm -r bad/checkpoints/*; refused 2 'bad/checkpoints: none is there' "$train" --resume --out bad
    mkdir old; : >old/checkpoint.safetensors
    refused 2 'old/checkpoint.safetensors: is one file, of a version before' "$train" --resume --out old
    refused 1 'old/checkpoint.safetensors: is one file, of a version before' "$sample" old
    # of another model: the manifest is right, the tensors are not of its sizes
    bad; "$bin/edit_manifest" $at channels 64
    refused 1 "$at/weights.safetensors: wte.weight has shape (256,32), this run wants (256,64)" "$train" --resume --out bad --data "$corpus"
    bad; "$bin/edit_manifest" $at layers 3
    refused 1 "$at/weights.safetensors: has no h.2.ln_1.weight, this run wants it with shape (32)" "$sample" bad
    # a full disk: a limit on the size of files stands for it
    bad; awk '{ for (i = 0; i < 300; ++i) print }' good/metrics.jsonl | sort -t: -k 2n >bad/metrics.jsonl
    cp bad/metrics.jsonl rows.txt
    (trap '' XFSZ; ulimit -f 300; "$train" --resume --out bad --data "$corpus" >out.txt 2>err.txt); status=$?
    [ "$status" = 1 ] || fail "status $status with a full disk: $(cat err.txt)"; ok
    grep -q 'rows bad/metrics.jsonl: cannot be written past byte' err.txt || fail "$(cat err.txt)"; ok
    same rows.txt bad/metrics.jsonl
    bad; rm -r bad/checkpoints/step-00000012 bad/checkpoints/latest
    (trap '' XFSZ; ulimit -f 300; "$train" --resume --out bad --data "$corpus" >out.txt 2>err.txt); status=$?
    [ "$status" = 1 ] || fail "status $status with a full disk: $(cat err.txt)"; ok
    grep -q 'checkpoint bad/checkpoints/step-00000012.tmp/.*: cannot be written past byte' err.txt || fail "$(cat err.txt)"; ok
    grep -q 'the newest checkpoint that is whole is bad/checkpoints/step-00000008$' err.txt || fail "$(cat err.txt)"; ok
    there=$(ls bad/checkpoints) # the resume has put the pointer back, the failed save left nothing
    [ "$(echo $there)" = 'latest step-00000008' ] || fail "left behind: $there"; ok
    "$train" --resume --out bad --data "$corpus" >out.txt 2>err.txt || fail "with room again: $(cat err.txt)"
    same_run good bad
    ;;
kill|kill_soak)
    # Lives of random length, each ended by kill -9 and each resumed from what the one before left.
    # At the end the run must be the one that nobody killed, bit for bit.
    moments=50; [ "$case_name" = kill_soak ] && moments=1000
    small() { "$train" --data "$corpus" --layers 1 --channels 16 --heads 2 --context 16 --batch 2 --micro-batches 2         --dropout 0.1 --scale-start 1e9 --scale-interval 5 --steps 60 --save-every 1 --validate-every 60 --sample-tokens 0         --threads 1 "$@"; }
    small --out whole >out.txt 2>err.txt || fail "$(cat err.txt)"
    began=$(date +%s%N); small --out once --stop-after 1 >out.txt 2>err.txt; life=$(($(date +%s%N) - began))
    killed=0 finished=0 round=0 last=0 saving=0
    while [ $killed -lt $moments ]; do
        if [ ! -d run ]; then
            round=$((round + 1)); last=0
            small --out run --stop-after 1 >out.txt 2>err.txt || fail "$(cat err.txt)"
        fi
        # from nothing to twice what starting and one step take: most moments fall into a save
        pause=$(awk -v seed=$((round * 100000 + killed)) -v life="$life"             'BEGIN { srand(seed); printf "%.4f", rand() * 2 * life / 1e9 }')
        "$train" --resume --out run --data "$corpus" --threads 1 >out.txt 2>err.txt & pid=$!
        sleep "$pause"; kill -9 $pid 2>/dev/null; wait $pid 2>/dev/null; status=$?
        case $status in
            137) killed=$((killed + 1))
                 for f in run/checkpoints/*.tmp; do [ -e "$f" ] && saving=$((saving + 1)) && break; done ;;
            0) finished=$((finished + 1)); same_run whole run; rm -rf run; continue ;;
            *) fail "after $killed kills: status $status: $(cat err.txt)" ;;
        esac
        for f in run/checkpoints/step-????????; do step=${f##*-}; done # the last is the newest
        step=$(expr "$step" : '0*\([0-9]*\)')
        [ "${step:-0}" -ge $last ] || fail "step $step after step $last"
        last=$step
    done
    "$train" --resume --out run --data "$corpus" --threads 1 >out.txt 2>err.txt || fail "$(cat err.txt)"
    same_run whole run
    rows whole/metrics.jsonl >a; rows run/metrics.jsonl >b; same a b
    [ $saving -gt 0 ] || fail 'no kill fell into a save'; ok
    echo "$killed kills, $saving while a checkpoint was written, always resumed; $((finished + 1)) runs of 60 steps ended with the bits of the one left alone"
    ;;
metrics)
    tiny --precision fp16 >out.txt 2>err.txt || fail "$(cat err.txt)"
    [ -d runs/001 ] || fail 'no runs/001'; ok
    tiny --precision bf16 --threads 1 >out1.txt 2>err.txt; tiny --precision bf16 --threads 2 >out.txt 2>err.txt
    rows runs/002/metrics.jsonl >a; rows runs/003/metrics.jsonl >b; same a b # any number of threads
    n='\(-\{0,1\}[0-9][0-9.e+-]*\|null\)'
    row="^{\"step\":[0-9]*,\"loss\":$n,\"lr\":$n,\"grad_norm\":$n,\"loss_scale\":$n,\"skipped\":\(true\|false\),\"tokens_per_s\":$n}\$"
    [ "$(grep -c "$row" runs/001/metrics.jsonl)" = 12 ] || fail "rows: $(cat runs/001/metrics.jsonl)"; ok
    [ "$(sed 's/{"step":\([0-9]*\),.*/\1/' runs/001/metrics.jsonl | tr '\n' ' ')" = '1 2 3 4 5 6 7 8 9 10 11 12 ' ] ||
        fail 'steps are not 1 to 12'; ok
    grep -q '</svg>' runs/001/loss.svg || fail 'no picture'; ok
    grep -q 'total .* equal$' out.txt || fail "ledger and formula differ: $(cat out.txt)"; ok
    grep -q 'DIFFER\|differ' out.txt && fail "ledger and formula differ: $(cat out.txt)"; ok
    grep -q 'bigram entropy' out.txt || fail 'no bigram entropy'; ok
    sed -n '/^sample$/,$p' out.txt | grep -q '^The ' || fail "no sample: $(cat out.txt)"; ok
    grep -q '^step 12/12 ' err.txt || fail "no progress: $(cat err.txt)"; ok
    "$sample" runs/001 --prompt 'void ' --tokens 30 >s1.txt 2>err.txt || fail "$(cat err.txt)"
    "$sample" runs/001 --prompt 'void ' --tokens 30 >s2.txt 2>/dev/null; same s1.txt s2.txt
    "$sample" runs/001 --prompt 'void ' --tokens 30 --seed 9 >s3.txt 2>/dev/null; differ s1.txt s3.txt
    head -c 5 s1.txt | grep -q 'void ' || fail "the prompt is missing: $(cat s1.txt)"; ok
    tiny --trace trace.json --out traced >out.txt 2>err.txt && grep -q '"backward"' trace.json || fail 'no trace'; ok
    # bytes of the optimizer's kinds, by optimizer: 4 a parameter and moment, no master without one
    moments() { sed -n 's/^  moments *\([0-9]*\) .*/\1/p' out.txt; }
    tiny --precision bf16 --out eight >out.txt 2>err.txt || fail "$(cat err.txt)"
    adam=$(moments); [ "${adam:-0}" -gt 0 ] || fail 'no moments'
    tiny --precision bf16 --optimizer sgd --out half >out.txt 2>err.txt || fail "$(cat err.txt)"
    [ "$(moments)" = $((adam / 2)) ] || fail "moments of sgd: $(moments), of adamw $adam"; ok
    tiny --precision bf16 --moments bf16 --out low >out.txt 2>err.txt || fail "$(cat err.txt)"
    [ "$(moments)" = $((adam / 2)) ] || fail "moments in bf16: $(moments), in fp32 $adam"; ok
    # of each block mlp.c_fc and mlp.c_proj, 4 x 32 x 32, are in 8 bits: 16 cells of 256, and 17
    tiny --precision bf16 --optimizer adam8bit --out less >out.txt 2>err.txt || fail "$(cat err.txt)"
    [ "$(moments)" = $((adam - 4 * 4096 * 8 + 4 * 4096 * 2 + 2 * 33 * 8)) ] || fail "moments of adam8bit: $(moments), of adamw $adam"; ok
    grep -q 'total .* equal$' out.txt || fail "ledger and formula differ: $(cat out.txt)"; ok
    tiny --precision bf16 --optimizer sgd --momentum 0 --stochastic-rounding --out none >out.txt 2>err.txt || fail "$(cat err.txt)"
    grep -q '^  moments\|^  master' out.txt && fail "moments or a master: $(cat out.txt)"
    grep -q 'total .* equal$' out.txt || fail "ledger and formula differ: $(cat out.txt)"; ok
    "$sample" none --prompt 'The ' --tokens 5 >s0.txt 2>err.txt || fail "$(cat err.txt)"; ok
    # every option that --help shows is one that the program takes
    "$train" --help >help.txt 2>err.txt || fail '--help fails'
    for o in precision steps stop-after micro-batches batch data layers heads kv-heads channels context \
             dropout checkpoint-activations lr seed threads out resume device-memory optimizer schedule momentum \
             stochastic-rounding moments ranks zero reduce narrate trace offload offload-dir; do
        grep -q -- "--$o\b" help.txt || fail "--help has no --$o"; ok
    done
    ;;
interrupt)
    "$train" --data "$corpus" --layers 2 --channels 32 --heads 4 --context 32 --batch 4 --steps 100000 \
        --out run >out.txt 2>err.txt & pid=$!
    n=0; until [ -s run/metrics.jsonl ]; do n=$((n + 1)); [ $n -lt 300 ] || fail 'it does not begin'; sleep 0.1; done
    kill -INT $pid; wait $pid; status=$?
    [ $status = 130 ] || fail "status $status after Ctrl-C, wanted 130: $(cat err.txt)"; ok
    grep -q 'interrupted after step .* saved; to go on: ./run train --resume --out run' err.txt || fail "$(cat err.txt)"; ok
    done_before=$(wc -l <run/metrics.jsonl)
    "$train" --resume --out run --stop-after $((done_before + 2)) --data "$corpus" >out.txt 2>err.txt || fail "$(cat err.txt)"
    [ "$(wc -l <run/metrics.jsonl)" = $((done_before + 2)) ] || fail 'the rows do not go on'; ok
    # ... up to the last step of the run, not of one without options
    refused 2 '--stop-after 100001 of --steps 100000' "$train" --resume --out run --stop-after 100001
    refused 2 '--resume: the run in run has --batch 4, given is 0' "$train" --resume --out run --batch 0
    refused 2 '--top-k -1: wanted 0 or more' "$train" --resume --out run --top-k -1
    ;;
tokens)
    # A token file as llm.c writes it: 1024 bytes of header, then 16-bit tokens, little-endian.
    octal() { for b in "$@"; do printf "\\$(printf %03o "$b")"; done; }
    number() { octal $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)); }
    header() { number "$1"; number "$2"; number "$3"; head -c 1012 /dev/zero; }
    body() { i=0; while [ $i -lt 500 ]; do octal $((i * 7 % 250)) 1; i=$((i + 1)); done; }
    body >body.raw
    { header 20240520 1 500; cat body.raw; } >good.bin
    { header 20240521 1 500; cat body.raw; } >magic.bin
    { header 20240520 2 500; cat body.raw; } >version.bin
    { header 20240520 1 501; cat body.raw; } >size.bin
    small="--layers 1 --channels 16 --heads 2 --context 16 --batch 2 --steps 3 --sample-tokens 4"
    "$train" --data good.bin $small --out run >out.txt 2>err.txt || fail "$(cat err.txt)"
    grep -q 'vocabulary 50304' err.txt || fail 'the vocabulary is not padded to 50304'; ok
    sed -n '/^sample$/,$p' out.txt | grep -q '^50256 [0-9 ]*$' || fail "no token numbers: $(cat out.txt)"; ok
    "$sample" run --prompt '257 300' --tokens 3 >s.txt 2>err.txt || fail "$(cat err.txt)"
    grep -q '^257 300 [0-9]* [0-9]* [0-9]* $' s.txt || fail "sample: $(cat s.txt)"; ok
    refused 1 'text is no GPT-2 token' "$sample" run --prompt 'text'
    refused 1 'text is no GPT-2 token' "$train" --data good.bin $small --prompt text --out spoken
    [ ! -e spoken ] || fail 'a refused run left its folder'; ok
    # rows that no byte of a text is of: it is text all the same
    "$train" --data "$corpus" $small --vocabulary 300 --out wide >out.txt 2>err.txt || fail "$(cat err.txt)"
    sed -n '/^sample$/,$p' out.txt | grep -q '^The ' || fail "no sample: $(cat out.txt)"; ok
    "$sample" wide --tokens 3 >s.txt 2>err.txt && grep -q '^The ' s.txt || fail "sample: $(cat err.txt s.txt)"; ok
    refused 1 'magic.bin' "$train" --data magic.bin $small
    refused 1 'version.bin' "$train" --data version.bin $small
    refused 1 'size.bin' "$train" --data size.bin $small
    refused 1 'good.bin' "$train" --data good.bin --layers 1 --channels 16 --heads 2 --context 64
    ;;
inspect_files)
    tiny --precision fp16 --steps 2 --out run >out.txt 2>err.txt || fail "$(cat err.txt)"
    for path in run run/ run/checkpoints run/checkpoints/step-00000002; do
        "$bin/inspect" "$path" >seen.txt 2>err.txt || fail "$path: $(cat err.txt)"
        grep -q 'step-00000002: checkpoint after step 2, whole$' seen.txt || fail "$path: $(cat seen.txt)"; ok
    done
    grep -q '^  layers = 2$' seen.txt || fail "no options: $(cat seen.txt)"; ok
    grep -q '^  master.safetensors  *[0-9]* bytes, CRC-32C [0-9a-f]\{8\}$' seen.txt || fail "no sums: $(cat seen.txt)"; ok
    # a tensor that is known: the weights of a layer norm begin at 1 and hardly move in two steps
    grep -q '^h.0.ln_1.weight  *F16  *(32)  *[01].[0-9]*  *1.[0-9e]*  *[01].[0-9]*  *0$' seen.txt || fail "no range: $(cat seen.txt)"; ok
    grep -q '^m.wpe.weight  *F32  *(32,32) ' seen.txt || fail "no moments: $(cat seen.txt)"; ok
    refused 1 "manifest.json: is a checkpoint's list of files, wanted its folder" \
        "$bin/inspect" run/checkpoints/step-00000002/manifest.json
    cases=$(dirname "$0")/../cases/safetensors accepted=0
    for file in "$cases"/*.safetensors; do
        case $file in
            */ok_*) "$bin/inspect" "$file" >seen.txt 2>err.txt || fail "$file: $(cat err.txt)"
                    accepted=$((accepted + 1)); ok ;;
            *) refused 1 "$file: " "$bin/inspect" "$file" ;;
        esac
    done
    [ $accepted = 4 ] || fail "$accepted files accepted, wanted 4"; ok
    refused 1 'text.txt: says that its header has' sh -c 'echo "some text" >text.txt; exec "$0" text.txt' "$bin/inspect"
    refused 1 'nothing: cannot be opened (No such file' "$bin/inspect" nothing
    refused 1 'bytes were changed' sh -c 'printf x | dd of=run/checkpoints/step-00000002/weights.safetensors bs=1 seek=9000 conv=notrunc 2>/dev/null; exec "$0" run' "$bin/inspect"
    refused 2 'PATH is required' "$bin/inspect"
    ;;
weight_files)
    # A model leaves in both forms and comes back: the same run, whatever way it took.
    small="--layers 2 --channels 32 --heads 4 --context 32 --batch 4 --steps 12 --sample-tokens 0 --precision fp32"
    "$train" --data "$corpus" $small --out run >out.txt 2>err.txt || fail "$(cat err.txt)"
    for to in a.safetensors a.bin; do
        "$bin/export" run --to $to 2>err.txt || fail "$(cat err.txt)"
        "$bin/inspect" $to >seen.txt 2>err.txt || fail "$(cat err.txt)"; ok
    done
    grep -q '^a.bin: GPT-2 of llm.c, version 3 (fp32): 2 layers, 4 heads, 32 channels, context 32, vocabulary 256 padded to 256$' seen.txt ||
        fail "$(cat seen.txt)"; ok
    grep -q '"n_head":4' config.json || fail "$(cat config.json)"; ok
    "$bin/export" run --to a.safetensors 2>err.txt || fail "once more: $(cat err.txt)"; ok
    mkdir other; echo '{"mine":true}' >other/config.json # nobody named that file: it stays
    refused 1 '--to other/a.safetensors: beside it lies a config.json of another model' "$bin/export" run --to other/a.safetensors
    [ "$(cat other/config.json)" = '{"mine":true}' ] && [ ! -e other/a.safetensors ] || fail "$(ls other)"; ok
    mkfifo pipe.bin; refused 1 'pipe.bin: is no regular file' "$bin/export" run --to pipe.bin
    [ -p pipe.bin ] || fail 'the pipe is gone'; ok
    for from in a.safetensors a.bin run/checkpoints/step-00000012/weights.safetensors; do
        heads=; case $from in run*) heads='--heads 4' ;; esac
        "$train" --data "$corpus" --init "$from" $heads --batch 4 --steps 3 --sample-tokens 0 --precision fp32 \
            --out "from$checks" >out.txt 2>err.txt || fail "$(cat err.txt)"
        grep -q '^model       2 layers, 4 heads (4 key/value), 32 channels, context 32, vocabulary 256:' err.txt || fail "$(cat err.txt)"
        files_of "from$checks" >from.all
        [ -e first.all ] || cp from.all first.all
        same first.all from.all
    done
    # it goes on from what it had learned: the first loss is the old run's last, not ln 256
    first=$(sed -n '1s/.*"loss":\([0-9.]*\),.*/\1/p' "from$((checks - 1))/metrics.jsonl")
    awk "BEGIN { exit !($first < 5.2) }" || fail "the first loss is $first: the weights were not taken"; ok
    refused 2 '--layers 3: a.bin has 2; leave the option out' "$train" --init a.bin --layers 3
    refused 2 '--context 64: a.bin has 32' "$train" --init a.bin --context 64
    refused 2 'with --resume: the checkpoint has the weights' "$train" --init a.bin --resume --out run
    refused 2 'weights nothing.bin: cannot be opened' "$train" --init nothing.bin
    head -c 2000 a.bin >cut.bin; refused 2 'weights cut.bin: has 2000 bytes, its sizes need' "$train" --init cut.bin
    refused 2 'ends neither in .safetensors nor in .bin' "$bin/export" run --to a.txt
    refused 1 'llm.c has fp32 and bf16' "$bin/export" run --to b.bin --type fp16
    "$train" --data "$corpus" --init a.bin --context 16 --batch 4 --steps 1 --sample-tokens 0 --out short >out.txt 2>err.txt || fail "$(cat err.txt)"; ok
    for type in bf16 fp32; do
        "$bin/export" run --to $type.bin --type $type 2>err.txt || fail "$(cat err.txt)"
    done
    same a.bin fp32.bin; differ a.bin bf16.bin
    # GPT-2's vocabulary: 50304 rows here, 50257 words in a file, and 50257 rows of a model from it
    octal() { for b in "$@"; do printf "\\$(printf %03o "$b")"; done; }
    { octal 136 216 52 1 1 0 0 0 244 1 0 0; head -c 1012 /dev/zero; i=0; while [ $i -lt 500 ]; do octal $((i * 7 % 250)) 1; i=$((i + 1)); done; } >tokens.bin
    "$bin/inspect" tokens.bin >seen.txt 2>err.txt || fail "$(cat err.txt)"
    grep -q '^tokens.bin: GPT-2 tokens of llm.c, version 1: 500 tokens$' seen.txt || fail "$(cat seen.txt)"; ok
    "$train" --data tokens.bin --layers 1 --channels 16 --heads 2 --context 16 --batch 2 --steps 2 --sample-tokens 0 --out gpt2 >out.txt 2>err.txt || fail "$(cat err.txt)"
    mkdir big
    for to in g.safetensors g.bin; do
        "$bin/export" gpt2 --to big/$to 2>err.txt || fail "$(cat err.txt)"
        "$train" --data tokens.bin --init big/$to --batch 2 --steps 2 --sample-tokens 0 --out "of-$to" >out.txt 2>err.txt || fail "$(cat err.txt)"
        grep -q 'vocabulary 50257:' err.txt || fail "the padding stayed: $(cat err.txt)"; ok
    done
    files_of of-g.bin >b.all; files_of of-g.safetensors >a.all; same a.all b.all
    "$bin/inspect" big/g.bin >seen.txt && grep -q 'vocabulary 50257 padded to 50304$' seen.txt || fail "$(cat seen.txt)"; ok
    "$bin/inspect" big/g.safetensors >seen.txt && grep -q '^wte.weight  *F32  *(50257,16) ' seen.txt || fail "$(cat seen.txt)"; ok
    ;;
memory)
    # VmHWM at most 1.10 x the ledger's peak + 64 MiB, on a run whose buffers dwarf the program.
    for precision in fp32 fp16; do
        rm -rf run
        "$train" --data "$corpus" --precision $precision --layers 4 --channels 256 --heads 4 --context 64 \
            --batch 32 --steps 1 --sample-tokens 0 --out run >out.txt 2>err.txt & pid=$!
        peak=0
        while kill -0 $pid 2>/dev/null; do
            now=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$pid/status 2>/dev/null)
            [ "${now:-0}" -gt "$peak" ] && peak=$now
            sleep 0.02
        done
        wait $pid || fail "$(cat err.txt)"
        ledger=$(sed -n 's/^  total *\([0-9]*\) .*/\1/p' out.txt)
        [ "$peak" -gt 0 ] && [ "${ledger:-0}" -gt 100000000 ] || fail "no numbers: $peak, $ledger"
        limit=$((ledger / 1024 * 110 / 100 + 65536))
        echo "$precision: VmHWM $peak kB, ledger $((ledger / 1024)) kB, limit $limit kB"
        [ "$peak" -le "$limit" ] || fail "VmHWM $peak kB above $limit kB"; ok
        [ "$peak" -ge $((ledger / 1024 * 9 / 10)) ] || fail 'the ledger counts what is not there'; ok
    done
    ;;
precisions|soak)
    # The default run in three precisions, whole (soak); or as many steps of a model so small that
    # they cost less than a twentieth.
    small='--layers 2 --channels 32 --context 64 --batch 4'
    [ "$case_name" = soak ] && small=
    losses=
    for precision in fp32 bf16 fp16; do
        "$train" --precision $precision $small --sample-tokens 0 --out $precision >out.txt 2>err.txt || fail "$(cat err.txt)"
        loss=$(sed -n 's/^validation loss \([0-9.]*\) .*/\1/p' out.txt)
        below=$(sed -n 's/^validation loss .*: \([0-9.]*\) below$/\1/p' out.txt)
        losses="$losses $loss"
        echo "$precision: validation loss $loss, below the bigram by ${below:-nothing}"
        [ "$case_name" = precisions ] || awk "BEGIN { exit !(\"${below:-0}\" + 0 >= 0.3) }" ||
            fail "$precision ends ${below:-0} below the bigram entropy, wanted 0.3"; ok
    done
    within() { echo "$*" | awk '{ a = b = $1; for (i = 2; i <= NF; ++i) { if ($i < a) a = $i; if ($i > b) b = $i }
                                  exit !(NF == 3 && b <= 1.01 * a) }'; }
    within $losses || fail "more than 1 % apart:$losses"; ok
    within 2.00 2.00 2.03 && fail 'sabotage: 1.5 % apart was let pass'; ok
    ;;
eight_bits|eight_bits_soak)
    # Moments in 8 bits end within 2 % of fp32's: the default run, whole (soak); or as many steps of a
    # small model, whose larger matrices are in 8 bits, for less than a twentieth of the time.
    small='--layers 2 --channels 48 --context 32 --batch 4'
    [ "$case_name" = eight_bits_soak ] && small=
    losses=
    for how in adamw adam8bit 'adamw --moments bf16'; do
        "$train" --optimizer $how $small --sample-tokens 0 --out "$how" >out.txt 2>err.txt || fail "$(cat err.txt)"
        loss=$(sed -n 's/^validation loss \([0-9.]*\) .*/\1/p' out.txt)
        losses="$losses $loss"
        echo "$how: validation loss $loss, moments $(sed -n 's/^  moments *\([0-9]*\) .*/\1/p' out.txt) bytes"
    done
    within() { echo "$*" | awk '{ exit !(NF == 3 && $2 <= 1.02 * $1 && $3 <= 1.02 * $1) }'; }
    within $losses || fail "more than 2 % above fp32:$losses"; ok
    within 2.00 2.05 2.00 && fail 'sabotage: 2.5 % above was let pass'; ok
    ;;
emulator|cuda)
    if [ "$case_name" = cuda ]; then  # no GPU: a clear word, and nothing left behind
        "$train" --device cuda --data "$corpus" --steps 1 --layers 1 --batch 1 --out probe >out.txt 2>err.txt || {
            grep -q '^train: device: .*; run on the CPU, or on a machine with a GPU$' err.txt || fail "$(cat err.txt)"
            [ ! -e probe ] || fail 'a refused run left its folder'
            echo "skipped: $(cat err.txt)"; exit 77; }
    fi
    # The same run on kernels and on the plain loops: the same losses, to rounding. $case_name is the device.
    six() { "$train" --data "$corpus" --layers 2 --channels 32 --heads 4 --context 32 --batch 4 --steps 6 \
                --sample-tokens 0 --validate-every 100 "$@" >out.txt 2>err.txt || fail "$* ($(tail -n 1 err.txt))"; }
    on_device() { six --device "$case_name" "$@"; }
    # A loss is a mean over the window's 128 tokens or more, of values near 5. Where weights and activations
    # are rounded to a unit u, a token's loss is off by some 5 u, here and there, up and down: the mean by
    # 5 u / sqrt(128), below u / 2. fp32: u = 2^-24, and sums of 32 to 128 terms with a rounding each: 64 u.
    bound() { case $1 in fp32) echo 3.8e-6 ;; tf32|fp16) echo 2.4e-4 ;; bf16) echo 2e-3 ;; esac; }
    losses() { sed 's/.*"loss":\([^,]*\),.*/\1/' "$1/metrics.jsonl"; }
    apart() { losses "$1" >a.losses; losses "$2" >b.losses  # the largest difference of two runs
              paste a.losses b.losses | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d; ++n }
                                             END { print n == 6 ? most + 0 : "no" }'; }
    below() { awk "BEGIN { exit !(\"$1\" != \"no\" && $1 + 0 <= $2) }"; }
    # calls NAME COUNT: so often the operation became kernels; steps alone have a backward pass
    calls() { sed -n 's/^kernels     //p' err.txt | tr ';' ',' | tr ',' '\n' | grep -qx " *$1 $2" ||
                  fail "wanted $1 $2 times: $(grep '^kernels' err.txt)"; ok; }
    set -- "--precision fp32" "--precision tf32 --kv-heads 2" "--precision fp16 --scale-start 1e9" \
           "--precision bf16 --dropout 0.1 --micro-batches 2" \
           "--precision fp32 --optimizer adam8bit --micro-batches 2 --channels 48" \
           "--precision bf16 --stochastic-rounding --schedule warmup-log" \
           "--precision fp16 --residual-scale 0.5 --checkpoint-activations every:1 --dropout 0.1"
    # Products are cuBLAS's on a GPU, where it was found: some runs also with the kernels that the emulator has.
    [ "$case_name" = emulator ] || set -- "$@" "--precision fp32 by kernels" "--precision tf32 by kernels" \
                                       "--precision bf16 --micro-batches 2 by kernels"
    # MPT_TEST_SMALL: one more look at a GPU's orders and streams, with two of them
    [ -z "${MPT_TEST_SMALL:-}" ] || set -- "$3" "$4 by kernels"
    n=0
    for how in "$@"; do
        by=; case $how in *' by kernels') by='--products kernels' how=${how% by kernels} ;; esac
        n=$((n + 1)); set -- $how; precision=$2
        case $how in *1e9) overflows=d$n ;; *'dropout 0.1 --micro-batches 2') dropped=c$n ;;
            '--precision tf32') rounded=d$n ;; esac
        on_device $how $by --out "d$n"
        if [ -n "${MPT_TEST_CUBLAS:-}" ] && [ -z "$by" ]; then
            grep -q '^precision .*, products by cuBLASLt [0-9.]*$' err.txt || fail "who multiplies? $(cat err.txt)"; ok
            calls product_by_cublas "[1-9][0-9]*"
            grep -q product_by_kernel err.txt && fail "a product that cuBLAS has no kernel for: $(cat err.txt)"
        else
            grep -q '^precision .*, products by kernels$' err.txt || fail "who multiplies? $(cat err.txt)"; ok
            grep -q product_by err.txt && fail "$how $by: $(cat err.txt)"
        fi
        if [ "$case_name" = emulator ]; then  # a graph's steps are calls once
            for name in begin_step inspect decide end_step; do calls $name 6; done
            case $how in *micro*) m=12 ;; *) m=6 ;; esac
            calls cross_entropy_backward $m; calls embedding_backward $m
            calls attention_backward $((2 * m)); calls gelu_backward $((2 * m))
            calls layernorm_backward $((5 * m)); calls linear_backward $((9 * m))
            case $how in *dropout*) calls dropout_backward "[1-9][0-9]*" ;; esac
            case $how in *adam8bit*) calls adam8bit 6 ;; *) calls adamw 6 ;; esac
        fi
        grep -q 'total .* equal$' out.txt || fail "$how: ledger and formula differ: $(cat out.txt)"; ok
        six $how --out "c$n"
        most=$(apart "d$n" "c$n")
        echo "$how: $most apart, bound $(bound "$precision")"
        below "$most" "$(bound "$precision")" || fail "$how: $most"; ok
        [ "$(rows "d$n/metrics.jsonl" | grep -c '"skipped":true')" = "$(grep -c '"skipped":true' "c$n/metrics.jsonl")" ] ||
            fail 'other steps were skipped'; ok
    done
    grep -q '"skipped":true' "$overflows/metrics.jsonl" || fail 'no step of fp16 was skipped'; ok
    # sabotage: other dropout masks, one seed further, would be seen
    on_device --precision bf16 --dropout 0.1 --micro-batches 2 --seed 2 --out other
    below "$(apart other "$dropped")" "$(bound bf16)" && fail 'sabotage: another seed was let pass'; ok
    [ -z "${MPT_TEST_SMALL:-}" ] || { echo "$case_name, small: $checks checks"; exit 0; }
    # sabotage: products of rounded operands where fp32 was asked for would be seen
    [ "$case_name" = emulator ] || ! below "$(apart "$rounded" c1)" "$(bound fp32)" || fail 'sabotage: tf32 was let pass as fp32'; ok
    # resumed is uninterrupted, bit for bit; and the CPU goes on where the device stopped
    for how in "--precision fp16 --dropout 0.1 --scale-start 4096 --scale-interval 2" \
               "--precision bf16 --optimizer adam8bit --micro-batches 2 --stochastic-rounding --channels 48"; do
        rm -rf whole parts
        on_device $how --out whole
        on_device $how --out parts --stop-after 3
        "$train" --device "$case_name" --resume --out parts --data "$corpus" >out.txt 2>err.txt || fail "$(cat err.txt)"
        same_run whole parts
        rows whole/metrics.jsonl >whole.rows; rows parts/metrics.jsonl >parts.rows
        same whole.rows parts.rows
    done
    on_device --precision fp32 --out moves --stop-after 3
    grep -q "to go on: ./run train --resume --out moves --device $case_name$" err.txt || fail "$(cat err.txt)"; ok
    "$train" --resume --out moves --data "$corpus" >out.txt 2>err.txt || fail "$(cat err.txt)"
    below "$(apart moves c1)" "$(bound fp32)" || fail "device, then CPU: $(apart moves c1)"; ok
    "$sample" moves --tokens 3 >out.txt 2>err.txt || fail "sample: $(cat err.txt)"; ok
    # what ends a run does so here, a step late at most
    tiny --device "$case_name" --precision fp32 --lr 1e30 --clip 0 --out nan >out.txt 2>err.txt && fail 'a NaN loss went on'
    grep -q 'train: step [0-9]*: loss is' err.txt || fail "no word of the loss: $(cat err.txt)"; ok
    tiny --device "$case_name" --scale-start 1e12 --scale-min 5e11 --out floor >out.txt 2>err.txt && fail 'the floor was passed'
    grep -q 'not finite, first in .* at the smallest scale' err.txt || fail "$(cat err.txt)"; ok
    refused 1 'bytes; of the budget of 524288' tiny --device "$case_name" --device-memory 512K --out small
    # options that a device has nothing for
    refused 2 "--optimizer lamb with --device $case_name: the device has adamw and adam8bit" "$train" --device "$case_name" --optimizer lamb
    refused 2 "--moments bf16 with --device $case_name" "$train" --device "$case_name" --moments bf16
    refused 2 "--scaler deepspeed with --device $case_name" "$train" --device "$case_name" --scaler deepspeed
    refused 2 "--trace with --device $case_name" "$train" --device "$case_name" --trace x.json
    [ "$case_name${MPT_TEST_CUBLAS:-}" != cuda ] || refused 1 '--products cublas: this program was built without cuBLAS' \
        "$train" --device cuda --products cublas --data "$corpus"
    ;;
emulator_ranks|cuda_ranks)
    # Ranks that compute with kernels: threads on the emulator; on GPUs a process each, which a loop starts.
    corner="--data $corpus --layers 2 --channels 32 --heads 4 --context 32 --batch 1 --micro-batches 2 --steps 100 \
            --validate-every 100 --save-every 100 --stop-after 4 --sample-tokens 0"
    # started N ARGS: N processes, the second with $odd beside; their words in out.N, err.N and status.N
    started() {
        n=$1; shift; r=0
        while [ $r -lt $n ]; do
            (status=0 more=; [ $r != 1 ] || more=${odd:-}
             RANK=$r WORLD_SIZE=$n LOCAL_RANK=$r MASTER_ADDR=127.0.0.1 MASTER_PORT=$port MPT_RUN_ID=$$ \
                 "$train" --device cuda "$@" $more >out.$r 2>err.$r & echo $! >pid.$r
             wait $! || status=$?
             echo $status >status.$r) &
            r=$((r + 1))
        done
        wait; port=$((port + 1))
        cat out.[0-9] >out.txt; cat err.[0-9] >err.txt
        ! grep -q 'Duplicate GPU\|sees no GPU' err.txt || { echo "skipped: $(grep -m 1 'Duplicate GPU\|sees no GPU' err.txt)"; exit 77; }
    }
    begun() { k=0; until [ -s "$1/metrics.jsonl" ]; do k=$((k + 1)); [ $k -lt 600 ] || fail "it does not begin: $(cat err.0)"; sleep 0.2; done; }
    like2() { rows "$1/metrics.jsonl" >a.rows; rows "$2/metrics.jsonl" >b.rows; same a.rows b.rows; same_run "$1" "$2"; }
    port=$((20000 + $$ % 10000))
    export MPT_TIMEOUT_S=120
    rm -f out.[0-9] err.[0-9] status.[0-9]
    on() { n=$1; shift
           if [ "$case_name" = emulator_ranks ]; then
               "$train" --device emulator --ranks $n $corner "$@" >out.txt 2>err.txt || fail "$* ($(tail -n 1 err.txt))"
           else
               rm -f out.[0-9] err.[0-9] status.[0-9]
               started $n $corner "$@"
               [ "$(cat status.* | sort -u)" = 0 ] || fail "$n ranks, $*: $(cat status.*) ($(cat err.txt))"
           fi; }
    on_cpu() { n=$1; shift; "$train" --ranks $n $corner "$@" >out.txt 2>err.txt || fail "$* ($(tail -n 1 err.txt))"; }
    # Losses of the same run on the plain loops, to rounding: the bounds of the case emulator, here of 128 tokens or more.
    losses() { sed 's/.*"loss":\([^,]*\),.*/\1/' "$1/metrics.jsonl"; }
    within() { losses "$2" >a.losses; losses "$3" >b.losses
               paste a.losses b.losses | awk -v most="$1" '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) bad = 1; ++n } END { exit bad || n != 4 }'; }
    close() { within "$@" || fail "more than $1 apart: $(paste a.losses b.losses)"; ok; }
    # all strategies have the same bits, and they are those of the CPU's ranks to rounding
    stages='0 1 2 3'; [ -z "${MPT_TEST_SMALL:-}" ] || stages='0 3'
    for zero in $stages; do
        on 3 $overflows --zero $zero --reduce every --out device$zero; equal "zero$zero"
        [ $zero = 0 ] || { like2 device0 device$zero; }
    done
    grep -q '"skipped":true' device0/metrics.jsonl || fail 'no step was skipped'; ok
    on_cpu 3 $overflows --reduce every --out cpu
    close 2.4e-4 cpu device3
    [ "$(grep -c '"skipped":true' cpu/metrics.jsonl)" = "$(grep -c '"skipped":true' device3/metrics.jsonl)" ] || fail 'other steps were skipped'; ok
    on_cpu 3 $overflows --reduce every --seed 2 --out other
    within 2.4e-4 other device3 && fail 'sabotage: another seed was let pass'; ok
    [ -z "${MPT_TEST_SMALL:-}" ] || { echo "$case_name, small: $checks checks"; exit 0; }
    # reduced once; another precision, another number of ranks
    on 2 --precision fp32 --zero 1 --reduce once --narrate --out once; equal once
    for line in 'rank 1 gathers the new weights of block 1: ' 'rank 0 adds up gradients of block 1 over ranks: ' 'rank 1 backward, micro-batch 1'; do
        grep -q "^$line" err.txt || fail "nobody says '$line': $(cat err.txt)"; ok
    done
    on_cpu 2 --precision fp32 --zero 2 --reduce once --out once_cpu
    close 3.8e-6 once once_cpu
    # saved by 3, resumed by 2, and by the CPU
    more="--resume --data $corpus --stop-after 6 --reduce every"
    for how in 2 cpu3; do rm -rf $how; cp -R device3 $how; done
    sixth() { losses "$1" | sed -n '5,6p'; }
    "$train" $more --ranks 3 --out cpu3 >out.txt 2>err.txt || fail "$(cat err.txt)"
    [ "$(sixth cpu3 | wc -l)" = 2 ] || fail 'the CPU does not go on'; ok
    cp -R device3 cpu2
    "$train" $more --ranks 2 --out cpu2 >out.txt 2>err.txt || fail "$(cat err.txt)"
    corner=; on 2 $more --zero 1 --out 2; equal 'resumed by 2'
    sixth 2 >a.losses; sixth cpu2 >b.losses
    paste a.losses b.losses | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 2.4e-4) bad = 1; ++n } END { exit bad || n != 2 }' ||
        fail "resumed: $(paste a.losses b.losses)"; ok
    if [ "$case_name" = cuda_ranks ]; then
        small="--data $corpus --layers 1 --channels 32 --heads 4 --context 32 --batch 1 --sample-tokens 0 --validate-every 100000 --save-every 100000 --steps 100000"
        # the sums of NCCL's own: to rounding, each of 2 additions an ulp of what is added
        corner="$small --stop-after 4"
        on 2 --precision fp32 --sums nccl --out theirs
        on_cpu 2 --precision fp32 --out ours
        close 3.8e-6 ours theirs
        # by MPI through the host: the sums are those of NCCL's ranks in rank order, to the bit
        if [ -n "${MPT_MPIEXEC:-}" ]; then
            on 2 $overflows --zero 2 --out nccl
            $MPT_MPIEXEC 2 "$train" --device cuda $corner $overflows --zero 2 --out mpi >out.txt 2>err.txt || fail "mpirun: $(cat err.txt)"
            equal mpirun; like2 nccl mpi
        fi
        # Ctrl-C at one rank: all stop after the same step
        started 2 $small --zero 1 --out stopped & all=$!
        begun stopped; kill -INT "$(cat pid.1)"; wait $all
        [ "$(cat status.0 status.1 | sort -u)" = 130 ] || fail "after Ctrl-C: $(cat status.* err.0 err.1)"; ok
        grep -q '^interrupted after step .* saved; to go on: as 2 processes, ./run train --resume --out stopped --device cuda --zero 1$' err.0 || fail "$(cat err.0)"; ok
        # who was started otherwise: told by name, by all
        odd='--lr 1e-3'; started 3 $small --stop-after 1 --out wrong; odd=
        [ "$(cat status.* | sort -u)" = 1 ] || fail "other options: $(cat status.*)"; ok
        [ "$(grep -c 'train: rank [0-2]: launch: rank 1 was started with other options than the others' err.txt)" = 3 ] || fail "$(cat err.txt)"; ok
        [ ! -e wrong ] || fail 'a refused run left its folder'; ok
        # one that does not understand its options: the others do not wait for ever
        MPT_TIMEOUT_S=5
        odd='--zero 7'; started 2 $small --out wrong; odd=
        [ "$(cat status.1 status.0 | tr '\n' ' ')" = '2 1 ' ] || fail "a wrong option: $(cat status.*)"; ok
        [ "$(cat err.1)" = "train: --zero 7: wanted 0, 1, 2 or 3" ] || fail "$(cat err.1)"; ok
        [ "$(grep -c . err.0)" = 1 ] && grep -q '^train: rank 0: .*rank 1' err.0 || fail "$(cat err.0)"; ok
        # one is killed: the others end, and say when they last heard of all
        MPT_TIMEOUT_S=20
        started 3 $small --zero 2 --out killed & all=$!
        begun killed; kill -KILL "$(cat pid.1)"; wait $all
        for r in 0 2; do
            [ "$(cat status.$r)" = 1 ] || fail "rank $r: status $(cat status.$r)"; ok
            [ "$(grep -c '^train: ' err.$r)" = 1 ] || fail "wanted one line: $(cat err.$r)"; ok
        done
        # an environment that does not agree with itself
        refused 2 'RANK is "3"; wanted a whole number from 0 to 2' env RANK=3 WORLD_SIZE=3 "$train" --device cuda
        refused 2 'WORLD_SIZE is set and RANK is not' env WORLD_SIZE=3 "$train" --device cuda
        refused 2 '--ranks 2: RANK=0 WORLD_SIZE=3 has started 3; leave --ranks out' env RANK=0 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 "$train" --device cuda --ranks 2
        refused 1 'WORLD_SIZE=3 but MASTER_ADDR is not set' env RANK=0 WORLD_SIZE=3 "$train" --device cuda
    fi
    ;;
ranks)
    for n in 1 2 3; do
        for mode in once every; do
            for zero in 0 1 2 3; do
                six $overflows --ranks $n --zero $zero --reduce $mode --out $n$mode$zero
                [ $n$zero = 10 ] || equal "$n ranks, zero$zero, $mode"
                [ $zero = 0 ] || like $n${mode}0 $n$mode$zero
            done
        done
        [ $n = 1 ] || { rows ${n}once0/metrics.jsonl >a.rows; rows ${n}every0/metrics.jsonl >b.rows; differ a.rows b.rows; }
    done
    grep -q '"skipped":true' 3once0/metrics.jsonl || fail 'no step was skipped'; ok
    six $overflows --out alone; like alone 1once0; like alone 1every0 # nothing is added over one rank
    grep -q '^memory at its peak' out.txt || fail "one rank: $(cat out.txt)"; ok
    grep -q 'each rank' out.txt err.txt && fail "one rank: $(cat out.txt)"; ok
    # by default once for ddp and zero1, every for zero2 and zero3
    six $overflows --ranks 3 --out default0; like 3once0 default0
    grep -q '^ranks       3 threads of this program, ddp, gradients reduced once a step$' err.txt || fail "$(cat err.txt)"; ok
    six $overflows --ranks 3 --zero 3 --out default3; like 3every0 default3
    # units that a validation has gathered are not gathered again: the table knows
    six $overflows --ranks 3 --zero 3 --validate-every 2 --out often; equal 'validated in between'
    six $overflows --ranks 2 --zero 3 --batch 128 --micro-batches 1 --context 8 --steps 4 --validate-every 1 --out one_batch
    equal 'validated by one batch of each rank'
    six $overflows --ranks 3 --zero 3 --reduce once --out sums
    grep -q '^  zero3 with gradients reduced once a window: each rank holds a whole sum of them, ' err.txt || fail "$(cat err.txt)"; ok
    # other optimizers, and activations that are computed again
    for how in "--optimizer lamb --lr 0.02 --precision fp32" "--optimizer adam8bit --precision bf16 --channels 48" \
               "--moments bf16 --precision bf16 --stochastic-rounding" "--optimizer sgd --lr 0.1 --precision tf32" \
               "--optimizer adam8bit --precision fp16 --checkpoint-activations every:1 --layers 3"; do
        rm -rf how0 how1 how2 how3
        for zero in 0 1 2 3; do
            six $how --ranks 3 --zero $zero --reduce every --out how$zero; equal "$how, zero$zero"
            [ $zero = 0 ] || like how0 how$zero
        done
    done
    # one rank on the joined batch: the same samples and masks, sums in another order (bound: see emulator)
    six --precision fp32 --dropout 0.1 --ranks 3 --zero 2 --out joined3
    six --precision fp32 --dropout 0.1 --batch 3 --out joined1
    losses() { sed 's/.*"loss":\([^,]*\),.*/\1/' "$1/metrics.jsonl"; }
    losses joined1 >a.losses; losses joined3 >b.losses; differ a.losses b.losses
    apart='{ d = $1 - $2; if (d < 0) d = -d; if (d > 3.8e-6) bad = 1; ++n } END { exit bad || n != 6 }'
    paste a.losses b.losses | awk "$apart" || fail "more than rounding: $(paste a.losses b.losses)"; ok
    six --precision fp32 --dropout 0.1 --batch 3 --seed 2 --out other; losses other >b.losses
    paste a.losses b.losses | awk "$apart" && fail 'sabotage: another seed was let pass'; ok
    # weights from a file, read for ranks that hold a part of them
    "$bin/export" joined1 --to start.safetensors 2>err.txt || fail "$(cat err.txt)"
    for zero in 0 3; do
        "$train" --data "$corpus" --init start.safetensors --heads 4 --ranks 3 --zero $zero --batch 1 --steps 2 \
            --sample-tokens 0 --out init$zero >out.txt 2>err.txt || fail "$(cat err.txt)"
    done
    like init0 init3
    ;;
rank_memory)
    # A memory in which zero3 trains, and nobody else: refused by the name of what does not fit.
    ladder() { "$train" --data "$corpus" --ranks 4 --layers 12 --context 64 --batch 1 --device-memory 18M \
                   --steps 3 --stop-after 2 --validate-every 9 --threads 1 "$@"; }
    n=0
    for what in 'fp32 master weights' 'second moments' 'activations'; do
        refused 1 ": memory: $what asks " ladder --zero $n --out small$n
        grep -q '^train: rank [0-3]: .* bytes; of the budget of 18874368, [0-9]* are held and ' err.txt || fail "$(cat err.txt)"; ok
        [ ! -e small$n ] || fail 'a refused run left its folder'; ok
        n=$((n + 1))
    done
    ladder --zero 3 --out small3 >out.txt 2>err.txt || fail "zero3: $(tail -n 1 err.txt)"; equal zero3
    # who gathers and frees what, in the first step and no other
    six --ranks 2 --zero 3 --narrate --out told
    for line in 'rank 1 gathers the weights of block 1: ' 'rank 0 frees the weights of embedding' \
                'rank 1 adds up gradients of block 1 over ranks: ' 'rank 0 backward, micro-batch 1' 'rank 1 has updated '; do
        grep -q "^$line" err.txt || fail "nobody says '$line': $(cat err.txt)"; ok
    done
    [ "$(grep -c '^rank [01] forward' err.txt)" = 4 ] || fail "2 ranks, 2 micro-batches: $(cat err.txt)"; ok
    # a trace with rows of each rank
    six --ranks 3 --zero 2 --trace trace.json --out traced
    for r in 0 1 2; do
        grep -q "\"name\":\"process_name\",.*\"pid\":$r,.*\"name\":\"rank $r\"" trace.json || fail "no rows of rank $r"; ok
        grep -q "\"name\":\"reduce_scatter\",.*\"pid\":$r,\"tid\":1," trace.json || fail "no collective of rank $r"; ok
        grep -q "\"name\":\"backward\",.*\"pid\":$r,\"tid\":0," trace.json || fail "no backward of rank $r"; ok
    done
    [ "$(head -n 1 trace.json)$(tail -n 1 trace.json)" = '[]' ] || fail 'the trace is not complete'; ok
    [ "$(sed '1d;$d' trace.json | grep -vc '^{.*},\{0,1\}$')" = 0 ] || fail 'a row of the trace is broken'; ok
    # Ctrl-C: all ranks stop after the same step
    "$train" --data "$corpus" --layers 2 --channels 32 --heads 4 --context 32 --batch 1 --steps 100000 --ranks 3 --zero 2 \
        --out run >out.txt 2>err.txt & pid=$!
    n=0; until [ -s run/metrics.jsonl ]; do n=$((n + 1)); [ $n -lt 300 ] || fail 'it does not begin'; sleep 0.1; done
    kill -INT $pid; wait $pid; status=$?
    [ $status = 130 ] || fail "status $status after Ctrl-C, wanted 130: $(cat err.txt)"; ok
    grep -q 'interrupted after step .* saved; to go on: ./run train --resume --out run --ranks 3 --zero 2$' err.txt || fail "$(cat err.txt)"; ok
    n=$(wc -l <run/metrics.jsonl)
    "$train" --resume --out run --ranks 2 --stop-after $((n + 2)) --data "$corpus" >out.txt 2>err.txt || fail "$(cat err.txt)"
    [ "$(wc -l <run/metrics.jsonl)" = $((n + 2)) ] || fail 'the rows do not go on'; ok
    ;;
rank_checkpoints)
    # Saved by n ranks, resumed by m: all stages go on alike, and as if nothing had happened where n is m.
    go_on() { "$train" --resume --data "$corpus" --stop-after 4 --reduce every --out "$@" >out.txt 2>err.txt || fail "$* ($(tail -n 1 err.txt))"; }
    writer=3
    for n in 1 2 3 4 8; do
        six $overflows --ranks $n --zero $writer --reduce every --stop-after 2 --out by$n
        for m in 1 2 3 4 8; do
            rm -rf ddp zero; cp -R by$n ddp; cp -R by$n zero
            go_on ddp --ranks $m
            go_on zero --ranks $m --zero $(((n + m) % 3 + 1)); equal "$n to $m"
            like ddp zero
            [ $n != $m ] || { six $overflows --ranks $n --reduce every --stop-after 4 --out through$n; like zero through$n; }
        done
        writer=$(((writer + 1) % 4))
    done
    differ_run by3 by4 # sabotage: who saw other samples has other weights
    for how in "--optimizer adam8bit --precision bf16 --channels 48" "--optimizer lamb --lr 0.02 --precision fp32" \
               "--moments bf16 --precision bf16 --stochastic-rounding"; do
        rm -rf by3; six $how --ranks 3 --zero 3 --reduce every --stop-after 2 --out by3
        for zero in 0 1 2 3; do rm -rf $zero; cp -R by3 $zero; go_on $zero --ranks 4 --zero $zero; [ $zero = 0 ] || like 0 $zero; done
    done
    # rank 0's disk is full: all end, and the old checkpoint stays
    six $overflows --ranks 3 --zero 3 --stop-after 2 --out bad
    there=$(find bad/checkpoints -type f -exec cksum {} + | sort)
    (trap '' XFSZ; ulimit -f 300; "$train" --resume --out bad --data "$corpus" --ranks 3 --zero 3 >out.txt 2>err.txt); status=$?
    [ "$status" = 1 ] || fail "status $status with a full disk: $(cat err.txt)"; ok
    grep -q '^train: rank 0: checkpoint bad/checkpoints/step-00000003.tmp/.*: cannot be written past byte' err.txt || fail "$(cat err.txt)"; ok
    [ "$(grep -c '^train: ' err.txt)" = 1 ] || fail "more than one line: $(cat err.txt)"; ok
    [ "$(find bad/checkpoints -type f -exec cksum {} + | sort)" = "$there" ] || fail 'the old checkpoint has changed'; ok
    "$train" --resume --out bad --data "$corpus" --ranks 3 --zero 3 >out.txt 2>err.txt || fail "with room again: $(cat err.txt)"; ok
    # a checkpoint of another model is refused by all, in one line of rank 0, who reads it
    "$bin/edit_manifest" "$(saved bad)" channels 64
    refused 1 'train: rank 0: checkpoint bad/' "$train" --resume --out bad --data "$corpus" --ranks 3 --zero 1
    ;;
mpi)
    [ -n "${MPT_MPIEXEC:-}" ] || { echo 'skipped: no MPI (Debian: libopenmpi-dev, openmpi-bin)'; exit 77; }
    own=$train
    printf '#!/bin/sh\nn=$1; shift\nexec %s $n "%s" "$@"\n' "$MPT_MPIEXEC" "$own" >job.sh; chmod +x job.sh
    job() { n=$1; shift; train_of=$train; train=./job_$n.sh
            printf '#!/bin/sh\nexec ./job.sh %s "$@"\n' $n >$train; chmod +x $train; six "$@"; train=$train_of; }
    mkdir states
    for how in '0 once host' '1 every file' '2 once host' '3 every file'; do
        set -- $how; zero=$1 mode=$2 where=$3
        six $overflows --ranks 3 --zero $zero --reduce $mode --out threads$zero
        [ $where = host ] || where='file --offload-dir states'
        rm -rf away; job 3 $overflows --zero $zero --reduce $mode --offload $where --out away; equal "$how"; like threads$zero away
        job 3 $overflows --zero $zero --reduce $mode --out processes$zero; equal "$how"
        grep -q "^ranks       3 processes, .*, gradients reduced" err.txt || fail "$(cat err.txt)"; ok
        like threads$zero processes$zero
    done
    # from threads to processes, and one trace of all
    six $overflows --ranks 2 --zero 1 --reduce every --stop-after 3 --out moved
    job 3 --resume --zero 3 --reduce every --trace trace.json --out moved
    rm -rf stays; six $overflows --ranks 2 --zero 1 --reduce every --stop-after 3 --out stays
    "$train" --resume --out stays --ranks 3 --reduce every --data "$corpus" >out.txt 2>err.txt || fail "$(cat err.txt)"
    like moved stays
    for r in 0 1 2; do grep -q "\"name\":\"all_gather\",.*\"pid\":$r,\"tid\":1," trace.json || fail "no rows of rank $r"; ok; done
    [ "$(sed '1d;$d' trace.json | grep -vc '^{.*},\{0,1\}$')" = 0 ] || fail 'a row of the trace is broken'; ok
    # wrong words: one line, of one process
    said() { want=$1; shift; "$@" >out.txt 2>err.txt && fail "status 0: $*"
             [ "$(grep -c 'train: ' err.txt)" = 1 ] || fail "wanted one line: $(cat err.txt)"
             grep -qF -- "$want" err.txt || fail "wanted '$want': $(cat err.txt)"; ok; }
    said '_SIZE=3 has started 3; leave --ranks out' ./job.sh 3 --ranks 2
    said 'train: --zero 7: wanted' ./job.sh 3 --zero 7
    # an error ends all; where all have it at once, each says its own
    ./job.sh 3 --data "$corpus" --zero 3 --device-memory 1M --out refused >out.txt 2>err.txt && fail 'a budget that is too small was kept'
    grep -q '^train: rank [0-2]: memory: .* asks ' err.txt || fail "$(cat err.txt)"; ok
    [ ! -e refused ] || fail 'a refused run left its folder'; ok
    ;;
offload)
    # None = host = file, to the bit, in losses and checkpoint: ranks, stage, micro-batches, reduction, precision.
    # In stage 3 files have the weights, too; validations leave a unit that the next step does not fetch.
    mkdir states
    balanced() { if [ "$1" = alone ]; then grep -q '^measured and formula are equal$' out.txt || fail "$*: $(cat out.txt)"; ok
                 else equal "$*"; fi; }
    n=0
    while read -r N zero M mode precision more; do
        n=$((n + 1)) how="--ranks $N --zero $zero --reduce $mode --micro-batches $M --precision $precision $more"
        [ "$N$zero" = 10 ] && kind=alone || kind=shared
        [ "$precision" != fp16 ] || how="$how --dropout 0.1 --scale-start 5e5"
        six $how --out none$n
        for where in host 'file --offload-dir states'; do
            rm -rf away; six $how --offload $where --out away; like none$n away
            balanced $kind "$how --offload $where"
        done
        [ -z "$(ls states)" ] || fail "left behind: $(ls states)"; ok
    done <<EOF
1 0 1 once fp16
1 0 2 every fp32
1 0 4 once bf16 --checkpoint-activations every:1 --layers 3
1 1 1 every fp32
1 2 3 every fp16
1 3 4 once tf32 --validate-every 2 --save-every 2
2 0 1 every bf16
2 0 3 every fp16
2 1 2 once fp32 --optimizer adam
2 2 4 every bf16
2 3 2 once fp16
3 0 2 once fp16
3 1 3 every bf16 --optimizer sgd --lr 0.1
3 2 1 once fp32
3 2 2 once bf16 --optimizer sgd --momentum 0 --lr 0.1
3 3 4 every fp16 --checkpoint-activations sqrt --validate-every 2 --save-every 2
4 0 4 every fp32
4 1 1 every fp16
4 2 2 once bf16
4 3 1 every fp32
EOF
    grep -q '"skipped":true' none1/metrics.jsonl || fail 'no step was skipped'; ok
    six --weight-decay 0.2 --precision bf16 --offload host --out other # sabotage: another rule is seen
    six --precision bf16 --out plain; differ_run plain other
    # The bytes that move, computed here: P parameters, 6 steps, all applied.
    P=$(sed -n 's/^model .*: \([0-9]*\) parameters$/\1/p' err.txt)
    moves() { grep -q "^  from device  *$1  " out.txt && grep -q "^  to device  *$2  " out.txt || fail "wanted $*: $(cat out.txt)"; ok; }
    for M in 1 4; do
        six --precision bf16 --micro-batches $M --save-every 6 --offload host --out moves$M; moves $((6 * M * 2 * P)) $((6 * 2 * P))
    done
    # ... and those that are held: 12 a parameter where the states are, the sums, none of it on the device.
    held() { sed -n "s/^  $1  *\([0-9]*\)  *[0-9]*  *\([0-9]*\)  *[0-9]*  *\([0-9]*\)  *[0-9]*$/\1 \2 \3/p" out.txt; }
    six --precision bf16 --micro-batches 4 --offload file --offload-dir states --out held
    [ "$(held master), $(held moments), $(held sums)" = "0 0 $((4 * P)), 0 0 $((8 * P)), 0 $((4 * P)) 0" ] || fail "P = $P: $(cat out.txt)"; ok
    # Weights in files, on one rank: no part of the model stays on the device; they are fetched twice a micro-batch.
    lies() { sed -n "/bytes $1, ledger/,/^  total/s/^  $2  *\([0-9]*\)  *[0-9]*$/\1/p" out.txt; }
    for M in 1 4; do
        six --precision bf16 --micro-batches $M --save-every 6 --zero 3 --offload file --offload-dir states --out filed$M; equal "M = $M"
        like moves$M filed$M
        for kind in weights grads sums master moments; do
            [ -z "$(lies 'on the device' $kind)" ] || fail "$kind on the device: $(cat out.txt)"; ok
        done
        [ "$(lies 'in files' weights)" = $((2 * P)) ] || fail "P = $P: $(cat out.txt)"; ok
        [ "$(lies 'in files' total)" = $((14 * P)) ] || fail "P = $P: $(cat out.txt)"; ok
        grep -q "^  to its device  *$((6 * 2 * M * 2 * P))  " out.txt || fail "wanted $((24 * M * P)): $(cat out.txt)"; ok
    done
    six --precision bf16 --micro-batches 1 --zero 3 --offload file --offload-dir states --stop-after 1 --out first
    equal 'a first micro-batch, with no unit ahead'
    # A budget in which the plain run does not fit, and the offloaded runs do.
    for ranks in '' '--ranks 2 --zero 1'; do
        few="--precision bf16 --micro-batches 1 --threads 1 $ranks"
        rm -rf plain away; six $few --out plain
        budget=$(($(sed -n 's/^  total *\([0-9]*\) .*/\1/p' out.txt) - 4 * P))
        refused 1 "bytes; of the budget of $budget" "$train" --data "$corpus" --layers 2 --channels 32 --heads 4 --context 32 --batch 1 \
            $few --device-memory $budget --out small
        grep -q 'memory: .* asks ' err.txt || fail "nothing is named: $(cat err.txt)"; ok
        for where in host 'file --offload-dir states'; do
            rm -rf away; six $few --offload $where --device-memory $budget --out away; like plain away
        done
    done
    # ... and one that a larger model fits only with its weights in files
    few='--precision bf16 --micro-batches 1 --threads 1 --zero 3 --layers 8 --save-every 6'
    rm -rf plain; six $few --offload file --offload-dir states --out plain
    total=$(sed -n '/on the device/,/^  total/s/^  total *\([0-9]*\) .*/\1/p' out.txt)
    budget=$((total + 4 * P)) # units come and go in two sizes, and leave gaps
    refused 1 "bytes; of the budget of $budget" "$train" --data "$corpus" --channels 32 --heads 4 --context 32 --batch 1 \
        $few --offload host --device-memory $budget --out small
    rm -rf away; six $few --offload file --offload-dir states --device-memory $budget --out away; like plain away
    # rows of the transfers in a trace, of every rank
    for zero in 2 3; do # in stage 3 weights come from files: no copy back, and reads for the sample, too
        six --ranks 2 --zero $zero --offload file --offload-dir states --trace trace.json --out traced$zero
        [ $zero = 2 ] && names='gradients weights read write' || names='gradients read write'
        for name in $names; do
            for r in 0 1; do grep -q "\"name\":\"$name\",.*\"pid\":$r,\"tid\":2," trace.json || fail "no $name of rank $r"; ok; done
        done
        [ "$(head -n 1 trace.json)$(tail -n 1 trace.json)" = '[]' ] || fail 'the trace is not complete'; ok
        [ "$(sed '1d;$d' trace.json | grep -vc '^{.*},\{0,1\}$')" = 0 ] || fail 'a row of the trace is broken'; ok
    done
    ;;
offload_resume)
    # Interrupted in one place and resumed in another: the run that nobody stopped. Other numbers of ranks: as ddp.
    mkdir states
    six $overflows --out whole
    for first in none host 'file --offload-dir states' 'file --offload-dir states --zero 3'; do
        for second in none host 'file --offload-dir states' 'file --offload-dir states --zero 3'; do
            case $first,$second in none,* | *,none) ;; *3*) continue ;; esac # weights come and go
            rm -rf parts; six $overflows --stop-after 3 --offload $first --out parts
            "$train" --resume --data "$corpus" --out parts --offload $second >out.txt 2>err.txt || fail "$(cat err.txt)"
            like whole parts
        done
    done
    six --precision fp32 --stop-after 3 --out narrow; cp -R narrow narrow_away; cp -R narrow narrow_files
    "$train" --resume --data "$corpus" --out narrow >out.txt 2>err.txt || fail "$(cat err.txt)"
    "$train" --resume --data "$corpus" --out narrow_away --offload host >out.txt 2>err.txt || fail "$(cat err.txt)"
    like narrow narrow_away # fp32 weights are saved once, and are the master's
    "$train" --resume --data "$corpus" --out narrow_files --zero 3 --offload file --offload-dir states >out.txt 2>err.txt || fail "$(cat err.txt)"
    like narrow narrow_files
    six $overflows --ranks 3 --zero 3 --reduce every --offload file --offload-dir states --stop-after 3 --out by3
    for m in 1 2 4; do
        rm -rf ddp zero; cp -R by3 ddp; cp -R by3 zero
        "$train" --resume --data "$corpus" --reduce every --ranks $m --out ddp >out.txt 2>err.txt || fail "$(cat err.txt)"
        where=host; [ $m != 2 ] || where='file --offload-dir states' # weights, too
        "$train" --resume --data "$corpus" --reduce every --ranks $m --zero $((m % 3 + 1)) --offload $where --out zero >out.txt 2>err.txt ||
            fail "$(cat err.txt)"
        like ddp zero
    done
    # Weights from a file, for ranks whose states, or weights, are away.
    "$bin/export" whole --to start.safetensors 2>err.txt || fail "$(cat err.txt)"
    for how in '' '--offload host' '--zero 2 --offload file --offload-dir states' '--zero 3 --offload file --offload-dir states'; do
        rm -rf init
        "$train" --data "$corpus" --init start.safetensors --heads 4 --ranks 2 $how --reduce every --batch 1 --steps 2 --sample-tokens 0 --out init \
            >out.txt 2>err.txt || fail "$(cat err.txt)"
        files_of init >init.all; [ -e first.all ] || cp init.all first.all; same init.all first.all
    done
    # Ctrl-C says how to go on; and a run that is killed leaves files that harm nobody.
    endless --offload file --offload-dir states --out run >out.txt 2>err.txt & pid=$!
    begun run; kill -INT $pid; wait $pid; status=$?
    [ $status = 130 ] || fail "status $status after Ctrl-C, wanted 130: $(cat err.txt)"; ok
    grep -q 'to go on: ./run train --resume --out run --offload file --offload-dir states$' err.txt || fail "$(cat err.txt)"; ok
    [ -z "$(ls states)" ] || fail "left behind: $(ls states)"; ok
    endless --offload file --offload-dir states --out killed >out.txt 2>err.txt & pid=$!
    begun killed; kill -9 $pid; wait $pid
    [ -e states/rank0-piece0.states ] || fail 'nothing was left by a kill'; ok
    six $overflows --offload file --offload-dir states --out after; like whole after
    [ ! -e states/rank0-piece0.states ] || fail 'the old file is still there'; ok
    ;;
offload_faults)
    # What becomes of states' and weights' files while a run uses them: an error that names tensor (unit) and file, on every rank.
    mkdir states other left
    # hurt RANKS WHAT command...: again and again, as the run may write the place anew, until it has ended.
    zero=1 of='piece[0-9]*.states' whose='states of [a-z]*\.'
    hurt() {
        ranks=$1 what=$2; shift 2
        rm -rf run; endless --ranks $ranks --zero $((ranks > 1 || zero == 3 ? zero : 0)) --offload file --offload-dir states --out run >out.txt 2>err.txt & pid=$!
        begun run; n=0
        while kill -0 $pid 2>/dev/null; do
            "$@" 2>/dev/null; n=$((n + 1)); [ $n -lt 20000 ] || { kill -9 $pid; fail "$*: nobody noticed"; }
        done
        wait $pid; status=$?
        [ $status = 1 ] || fail "$*: status $status: $(cat err.txt)"
        [ "$(grep -c '^train: ' err.txt)" = 1 ] || fail "$*: wanted one line: $(cat err.txt)"
        grep "^train: .*states/rank[01]-$of: .*$what" err.txt | grep -q "$whose" ||
            fail "$*: wanted '$what': $(cat err.txt)"; ok
        rm -f states/*
    }
    last=states/rank0-piece8.states
    hurt 1 'ends at byte' truncate -c -s -1 $last
    hurt 1 'ends at byte' truncate -c -s 0 $last
    hurt 2 'ends at byte' truncate -c -s 0 states/rank1-piece4.states
    hurt 1 '\(holds record\|its bytes add up to\|is no record\|ends at\)' dd if=states/rank0-piece4.states of=$last bs=4096 conv=notrunc
    hurt 1 '\(is no record\|its bytes add up to\)' dd if=/dev/zero of=$last bs=4096 count=1 conv=notrunc
    # another run's file, of the same tensor
    endless --offload file --offload-dir other --out neighbour >out2.txt 2>err2.txt & neighbour=$!
    begun neighbour
    hurt 1 '\(was written by run\|its bytes add up to\|is no record\|ends at\)' dd if=other/rank0-piece8.states of=$last bs=4096 conv=notrunc
    # weights, of which the neighbour has none: a run like it leaves one
    zero=3 of='unit[0-9]*.weights' whose='weights of block [0-7]'
    hurt 2 'ends at byte' truncate -c -s 0 states/rank1-unit4.weights
    hurt 1 '\(holds record\|its bytes add up to\|is no record\|ends at\)' dd if=states/rank0-unit4.weights of=states/rank0-unit8.weights bs=4096 conv=notrunc
    endless --zero 3 --offload file --offload-dir left --out left_run >out3.txt 2>err3.txt & pid=$!
    begun left_run; kill -9 $pid; wait $pid
    hurt 1 '\(was written by run\|its bytes add up to\|is no record\|ends at\)' dd if=left/rank0-unit8.weights of=states/rank0-unit8.weights bs=4096 conv=notrunc
    kill -0 $neighbour || fail "the neighbour has ended: $(cat err2.txt)"; ok
    kill -INT $neighbour; wait $neighbour
    # A full disk, for which a limit on the size of files stands: before a step, and without a folder.
    for ranks in 1 2; do
        (trap '' XFSZ; ulimit -f 64; exec "$train" --data "$corpus" --layers 2 --channels 32 --heads 4 --context 32 --ranks $ranks --steps 4 \
            --offload file --offload-dir states --out full >out.txt 2>err.txt); status=$?
        [ "$status" = 1 ] || fail "status $status with a full disk: $(cat err.txt)"; ok
        grep -q '^train: .*states/rank[01]-piece[0-9]*.states: cannot be written at byte .*(File too large); .*(states of wte.weight' err.txt ||
            fail "$(cat err.txt)"; ok
        [ ! -e full ] && [ -z "$(ls states)" ] || fail "left behind: $(ls states)"; ok
    done
    ;;
*) fail "no case $case_name" ;;
esac
[ $checks -gt 0 ] || fail 'nothing was checked'
echo "$case_name: $checks checks"
