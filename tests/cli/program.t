A program's file is shown: parameters, a line a node, results.

  $ cp $ROOT/fuzz/corpus/program/step $ROOT/fuzz/corpus/program/control .
  $ mica program show step
  param %0 cache donated
  param %1 at
  param %2 value
  %0 = leaf f32[8] ready
  %1 = leaf i32[] ready
  %2 = leaf f32[1] ready
  %3 = slice_update_at f32[8] %0 %2 %1 axis=0
  %4 = square f32[8] %3
  %5 = sum f32[1] %4 axes=[0]
  %6 = reshape f32[] %5 shape=[]
  result %3 0
  result %6 1
  result %1 2
  $ mica program show control | sed -n '/ = while/,/^%12/p'
  %11 = while f32[4,6] i32[] %0 %4 max_rounds=5
      cond: %0 f32[4,6] %1 f32[6] -> %5
          %2 = leaf f32[] ready
          %3 = max f32[1,1] %0 axes=[0,1]
          %4 = reshape f32[] %3 shape=[]
          %5 = greater bool[] %4 %2
      body: %0 f32[4,6] %1 f32[6] -> %8
          %2 = leaf f32[] ready
          %3 = broadcast_to f32[4,6] %2 shape=[4,6]
          %4 = multiply f32[4,6] %0 %3
          %5 = min f32[1] %1 axes=[0]
          %6 = reshape f32[] %5 shape=[]
          %7 = broadcast_to f32[4,6] %6 shape=[4,6]
          %8 = add f32[4,6] %4 %7
  %12 = part f32[4,6] %11 index=0
  $ mica program show step -o step.txt; mica program show step | cmp - step.txt

As a graph for Graphviz: an edge for each operand, a cluster for each graph of a branch or loop.

  $ mica program show step --dot
  digraph program {
    node [shape=box, fontname="sans-serif", fontsize=10];
    param_0_0 [shape=ellipse, style=filled, label="cache donated"];
    param_0_0 -> g0_0;
    param_1_1 [shape=ellipse, style=filled, label="at"];
    param_1_1 -> g0_1;
    param_2_2 [shape=ellipse, style=filled, label="value"];
    param_2_2 -> g0_2;
    g0_0 [label="leaf\nf32[8] ready"];
    g0_1 [label="leaf\ni32[] ready"];
    g0_2 [label="leaf\nf32[1] ready"];
    g0_3 [label="slice_update_at\nf32[8] axis=0"];
    g0_0 -> g0_3;
    g0_2 -> g0_3;
    g0_1 -> g0_3;
    g0_4 [label="square\nf32[8]"];
    g0_3 -> g0_4;
    g0_5 [label="sum\nf32[1] axes=[0]"];
    g0_4 -> g0_5;
    g0_6 [label="reshape\nf32[] shape=[]"];
    g0_5 -> g0_6;
    result_3_3 [shape=ellipse, style=filled, label="0"];
    g0_3 -> result_3_3;
    result_6_4 [shape=ellipse, style=filled, label="1"];
    g0_6 -> result_6_4;
    result_1_5 [shape=ellipse, style=filled, label="2"];
    g0_1 -> result_1_5;
  }
  $ mica program show control --dot > control.dot; grep -c 'subgraph cluster' control.dot
  7
  $ grep 'while' control.dot; grep -n 'style=dashed' control.dot | wc -l
    g0_11 [label="while\nf32[4,6] i32[] max_rounds=5"];
  8
  $ mkdir bin; printf '#!/bin/sh\necho "$@"; cat > drawn\n' > bin/dot; chmod +x bin/dot
  > PATH=$PWD/bin:$PATH mica program show step -o step.svg; cat step.svg
  > mica program show step --dot | cmp - drawn
  -Tsvg
  $ printf '#!/bin/sh\nexit 3\n' > bin/dot
  > PATH=$PWD/bin:$PATH mica program show step -o step.png 2>&1; ls step.png 2>/dev/null
  mica: step.png: Graphviz's dot failed
  [2]
  $ PATH=$(dirname "$(command -v mica)") mica program show step -o step.svg 2>&1
  mica: step.svg: pictures are drawn by Graphviz's dot, which cannot be started: No such file or directory; --dot prints the graph for it
  [1]

A run needs a value for each input: numbers, npy, npz and safetensors. The numbers: the program
writes value at `at` into cache and gives the sum of squares, 7 * 4 + 25.

  $ mica program run step --input cache=2 --input at=3 --input value=5
  0 f32[8]: 2 2 2 5 2 2 2 2
  1 f32[]: 53
  2 i32[]: 3
  $ mica program run step --input cache=2 --input at=3 --input value=5 -o 0=c.npy
  > od -An -tf4 c.npy | tail -2
                 2               2               2               5
                 2               2               2               2
  $ mica program run step --input - --input at=0 --input value=1 < c.npy
  0 f32[8]: 1 2 2 5 2 2 2 2
  1 f32[]: 50
  2 i32[]: 0
  $ mica program run step --input cache=2 --input at=3 --input value=5 -o all.npz -o all.safetensors
  > for file in all.npz all.safetensors; do
  >   mica program run step --input cache=$file:0 --input at=$file:2 --param value=9; done
  0 f32[8]: 2 2 2 9 2 2 2 2
  1 f32[]: 109
  2 i32[]: 3
  0 f32[8]: 2 2 2 9 2 2 2 2
  1 f32[]: 109
  2 i32[]: 3
  $ mica program run step --input c.npy --input at=0 --input value=1 -o 0=- | cat > d.npy
  > mica program run step --input cache=d.npy --input at=1 --input value=1 --mode eager
  0 f32[8]: 1 1 2 5 2 2 2 2
  1 f32[]: 47
  2 i32[]: 1
  $ mica program run step --input c.npy --input at=0 --input value=1 --time 3 2>&1 >/dev/null |
  > sed 's/[0-9.e-]* ms/N ms/g'
  3 runs: median N ms, min N ms
  $ mica program run step --input c.npy --input at=0 --input value=1 --report 2>&1 | grep ^device
  device cpu, mode lazy: 1 runs, 1 compiles

What a run takes is estimated on each device that was measured, and one of them is chosen.

  $ mica program cost step --device cpu 2>busy | sed 's/^\(cpu\) *[0-9.e-]* ms, /\1 N ms, /'
  cpu N ms, 17 operations, 112 bytes, 3 steps: estimated
  the choice: cpu
  $ MICA_CALIBRATION=off mica program cost step --device cpu 2>&1 | head -n 1
  mica: device_calibrate: MICA_CALIBRATION is off: nothing is measured

What is wrong is named.

  $ mica program run step --input at=3 2>&1
  mica: 2 of 3 inputs have no value:
    cache f32[8]
    value f32[1]
  Give each by --input NAME=FILE, or --input NAME=NUMBER.
  [1]
  $ mica program run step --input cash=2 2>&1
  mica: there is no input 'cash'; mica program show lists them
  [1]
  $ mica program run step --input at=1 --input at=2 2>&1
  mica: at is given twice: by at=1 and at=2
  [1]
  $ mica program run step --input cache=all.npz --input at=1 --input value=1 2>&1
  mica: all.npz: there are 3 arrays, and none is called 'cache': say which by cache=all.npz:ARRAY
  [1]
  $ mica program run step --input cache=all.npz:9 2>&1
  mica: all.npz: there is no array '9'
  [1]
  $ mica program run step --input all.npz 2>&1
  mica: all.npz: no array has the name of an input: say NAME=FILE:ARRAY
  [1]
  $ mica program run step --input cache=nothing.npy 2>&1
  mica: nothing.npy: No such file or directory
  [1]
  $ mica program run step --input cache=c.npy --input at=9 --input value=1 2>&1
  mica: slice_update_at: 1 elements from 9 on do not fit into axis 0, which has 8
  [1]
  $ mica program run step --input at=c.npy 2>&1
  mica: input at has the shape [], array arr_0 of the file [8]
  [1]
  $ mica program run step --input cache=1 --input at=0 --input value=all.npz:2 2>&1
  mica: input value has the shape [1], array 2 of the file []
  [1]
  $ mica program run step --cast --input cache=1 --input at=0 --input value=all.npz:2 2>&1
  mica: input value has the shape [1], array 2 of the file []
  [1]
  $ mica program run step --input cache=2 --input at=3 --input value=5 -o c.npy 2>&1
  mica: c.npy: there are 3 results: say NAME=c.npy, or write a file that ends in .npz or .safetensors
  [1]
  $ mica program run step --input cache=2 --input at=3 --input value=5 -o 7=c.npy 2>&1
  mica: there is no result '7'; mica program show lists them
  [1]
  $ mica program walk step 2>&1
  mica: 'walk' is none of show, run and cost
  Try: mica help program
  [2]
  $ mica program show 2>&1
  mica: say show, run or cost, and name a program's file
  Try: mica help program
  [2]
  $ mica program show c.npy 2>&1
  mica: c.npy: no graph's file
  [1]
  $ cp $ROOT/fuzz/corpus/program/matmul .; mica program show matmul 2>&1
  mica: matmul: the constant model.w is not in the file, and not among constants
  [1]
