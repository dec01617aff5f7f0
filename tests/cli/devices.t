The devices, and how each of them runs each op.

  $ mica devices | sed -n '1,5p' | sed 's/^\( *[a-z]* *\).*/\1/; s/ *$//'
  cpu
    description
    architecture
    threads
    memory
  $ mica devices --ops | cut -c 1-37 | sed 's/ *$//' > ops
  > sed -n '1p; /^add /p; /^reshape /p; /^part /p' ops
  op                       cpu
  part                     no work
  add                      native
  reshape                  no work
  $ grep -c -e ' -' -e 'on cpu' ops
  0
  [1]

A verb computes on the device that --device or $MICA_DEVICE names.

  $ mica run --device cpu "What is curl?" -q -n 4
  curl is a command
  $ MICA_DEVICE=tpu mica bench 2>&1
  mica: there is no device "tpu"; there are: cpu, mlx, cuda
  [1]
  $ mica run --device gpu "What is curl?" 2>&1
  mica: there is no device "gpu"; there are: cpu, mlx, cuda
  [1]

The engines are below; those that are not there say what they lack.

  $ mica devices | sed -n '/^engine/,$p' | sed 's/^\(  unavailable\) .*/\1/'
  engine native
    description  mica's own: on its devices, in this process
    chosen       for models that it knows, unless --engine names another
  engine mlx_lm
    description  Python's mlx-lm, in a process of its own for each model
    unavailable

A verb computes with the engine that --engine or $MICA_ENGINE names.

  $ mica run --engine native "What is curl?" -q -n 4
  curl is a command
  $ MICA_ENGINE=steam mica run "What is curl?" 2>&1
  mica: there is no engine "steam"; the engines are: native, mlx_lm
  [1]
  $ mica run --engine mlx_lm "What is curl?" 2>&1 | sed 's/ available: .*/ available: .../'
  mica: the engine "mlx_lm" is not available: ...

What each device was measured at is printed, and kept, unless it is said that the machine is busy.

  $ mica devices --calibrate 2>busy | sed -n '1p; /^matmul_f32_large /p' |
  >   awk '{print $1, $2, ($3 != "-")}'
  rate unit 1
  matmul_f32_large op/s 1
  $ cat "$HOME"/.cache/mica/calibration-cpu-*.json 2>/dev/null |
  >   cat - busy | grep -qE '"matmul_f32_large": [1-9]|^mica: cpu: the machine is busy' && echo 1
  1
  $ files=$(ls "$HOME"/.cache/mica/calibration-cpu-*.json 2>/dev/null | wc -l)
  > lines=$(mica devices | sed '/^mlx/,$d' | grep -cE '^  reads +[0-9.e+]+ GB/s; weights')
  > test "$files" = "$lines" && echo listed
  listed
  $ MICA_CALIBRATION=off mica devices --calibrate 2>&1 >/dev/null | head -n 1
  mica: cpu: device_calibrate: MICA_CALIBRATION is off: nothing is measured
  $ MICA_CALIBRATION=off mica devices | grep -c '^  reads'
  0
  [1]
