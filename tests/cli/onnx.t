An ONNX file becomes a program. What it lacks is listed.

  $ N=$ROOT/tests/fixtures/onnx
  > mica convert $N/mlp.onnx mlp.mica --dim batch=3 | sed "s/ [0-9.]* kB/ N kB/"
  > mica program run mlp.mica --input x=$N/mlp.npz:in.x -o y=y.npy; tail -c 48 y.npy | od -An -tf4 |
  >   awk '{ printf "%.4f %.4f %.4f %.4f\n", $1, $2, $3, $4 }'
  > mica convert $N/mlp.onnx mlp.mica --dim batch=3 2>&1
  mlp.mica: N kB
    input  x f32[3,8]
    result y f32[3,4]
  0.5023 0.2278 0.2335 0.0365
  0.5289 0.0644 0.3836 0.0230
  0.2824 0.0551 0.5877 0.0748
  mica: mlp.mica exists: name a new file, or remove this one
  [1]
  $ N=$ROOT/tests/fixtures/onnx; cp $N/mlp.onnx $N/outside.onnx $N/lengths.onnx $N/f64_time.onnx .
  > mica convert mlp.onnx open.mica | sed "s/ [0-9.]* kB/ N kB/"
  > mica program run open.mica --input x=$N/mlp.npz:in.x
  > mica program run open.mica --dim batch=1 --input x=0.5
  > mica program show mlp.onnx
  > mica program show mlp.onnx --dim length=3 2>&1
  > mica program show mlp.onnx --input z=3 2>&1
  > mica program show mlp.onnx --dot | head -1
  > mica program run f64_time.onnx --input x=1700000000 2>&1
  > mica program run mlp.onnx --input x=0.5 2>&1
  > mica program run mlp.onnx --dim x.0=1 --input x=0.5
  > mica program run open.mica 2>&1
  > mica convert mlp.onnx other.mica --dim length=3 2>&1
  > mica convert mlp.onnx other.mica --input z=3 2>&1
  > mica convert mlp.onnx other.mica --input x=3 2>&1
  > mica convert mlp.onnx other.mica --input x=0.5 --dim batch=1 > made && mica program run other.mica
  > rm other.mica
  open.mica: N kB
    input  x f32[batch,8]
    result y f32[batch,4]
  y f32[3,4]: 0.502271 0.227753 0.233518 0.0364583 0.528877 0.0644491 0.383637 0.0230369 ...
  y f32[1,4]: 0.260293 0.0733449 0.598873 0.0674892
  opset 18
  input x f32[batch,8]
  result y f32[batch,4]
  operator Gemm 2
  operator Relu 1
  operator Softmax 1
  mica: mlp.onnx: there is no length 'length'; there are: x.0 (batch)
  mica: mlp.onnx: there is no input 'z'; there are: x
  digraph program {
  mica: f64_time.onnx: input 'x' is f64 and is computed in f32, of 24 bits
  y f64[2]: 0 0
  mica: x: a number is for inputs of known lengths: give batch a number by --dim batch=N
  y f32[1,4]: 0.260293 0.0733449 0.598873 0.0674892
  mica: 1 of 1 inputs have no value:
    x f32[batch,8]
  Give each by --input NAME=FILE, or --input NAME=NUMBER.
  mica: mlp.onnx: there is no length 'length'; there are: x.0 (batch)
  mica: mlp.onnx: there is no input 'z'; there are: x
  mica: mlp.onnx: 1 of what it needs is missing: its shape must be a number, and is batch (input 'x'). What to do: for lengths, give a number to each name
  y f32[1,4]: 0.260293 0.0733449 0.598873 0.0674892
  $ mica convert lengths.onnx lengths.mica --dim x.1=4 --dim h=6 --dim i.3=8 | sed 1d | head -4
    input  x f32[batch,4,12]
    input  i f32[i.0,2,6,8]
    result yf f32[batch,48]
    result mean f32[batch,12]
  $ mica convert mlp.onnx other.mica --dim batch 2>&1
  mica: --dim: 'batch' is not NAME=N
  Try: mica help convert
  [2]
  $ mica convert mlp.onnx other.mica --dim batch=few 2>&1
  mica: --dim: 'few' is no length
  Try: mica help convert
  [2]
  $ mica convert mlp.onnx other.mica --dim batch=99999999999999999999 2>&1
  mica: --dim: '99999999999999999999' is no length
  Try: mica help convert
  [2]
  $ mica convert mlp.onnx other.mica --dim batch=1 --dtype float16 2>&1
  mica: --dtype and --shard-size are not for ONNX files
  Try: mica help convert
  [2]
  $ mica convert outside.onnx other.mica 2>&1
  mica: outside.onnx: tensor 'w': ./outside.data: No such file or directory
  [1]
  $ mica convert none.onnx other.mica 2>&1
  mica: none.onnx: No such file or directory
  [1]
  $ mica convert mlp.onnx 2>&1
  mica: name the file to make, such as net.mica
  Try: mica help convert
  [2]
  $ mica convert model other --dim batch=1 2>&1
  mica: --dim and --input are for ONNX files
  Try: mica help convert
  [2]
  $ mica convert mlp.onnx other.mica --input x 2>&1
  mica: --input: 'x' is not NAME=VALUE
  Try: mica help convert
  [2]
  $ sed 's/Relu/Rely/' mlp.onnx > odd.onnx; mica convert odd.onnx odd.mica 2>&1
  mica: odd.onnx: 1 of what it needs is missing: operator Rely of opset 18 (node 1, Rely). What to do: for operators, export without them, or as functions of others
  [1]
  $ head -c 900 mlp.onnx > cut.onnx; mica convert cut.onnx cut.mica 2>&1
  mica: cut.onnx: no ONNX file, or it was altered or cut short
  [1]
  $ mica program show odd.onnx
  opset 18
  input x f32[batch,8]
  result y f32[batch,4]
  operator Gemm 2
  operator Rely 1
  operator Softmax 1
  missing operator Rely of opset 18 (node 1, Rely)
  advice for operators, export without them, or as functions of others

What options fix is shown, and each is said once; of integers nothing is cut off.

  $ mica program show mlp.onnx --dim x.0=2 --input x=0.5
  opset 18
  input x f32[2,8] fixed
  result y f32[batch,4]
  operator Gemm 2
  operator Relu 1
  operator Softmax 1
  $ mica program show mlp.onnx --dim batch=2 | sed -n 2,3p
  input x f32[2,8]
  result y f32[2,4]
  $ mica program show mlp.onnx --dim batch=2 --dim batch=3 2>&1
  mica: mica_onnx_load: length 'batch' is given twice
  [1]
  $ mica program show mlp.onnx --dim batch=2 --dim x.0=3 2>&1
  mica: mlp.onnx: length 'batch' is given, and so is the place of each axis of it
  [1]
  $ mica convert mlp.onnx other.mica --dim batch=2 --input x=1 --input x=2 2>&1
  mica: mica_onnx_load: input 'x' is given twice
  [1]
  $ cp $ROOT/tests/fixtures/onnx/numbers.onnx .; mica convert numbers.onnx other.mica --input i=1.5 2>&1
  mica: numbers.onnx: input 'i': what it is fixed to is no i64
  [1]
  $ mica program show open.mica --input x=1 2>&1
  mica: show takes --input for ONNX files alone
  Try: mica help program
  [2]
