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
  $ N=$ROOT/tests/fixtures/onnx; cp $N/mlp.onnx $N/outside.onnx .
  > mica convert mlp.onnx other.mica 2>&1
  mica: mlp.onnx: these lengths have no number: batch; say each (--dim NAME=N)
  [1]
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
  mica: --dim is for ONNX files
  Try: mica help convert
  [2]
  $ sed 's/Relu/Rely/' mlp.onnx > odd.onnx; mica convert odd.onnx odd.mica 2>&1
  mica: odd.onnx: mica lacks 1 of its operators: Rely (version 18, 1 node)
  [1]
  $ head -c 900 mlp.onnx > cut.onnx; mica convert cut.onnx cut.mica 2>&1
  mica: cut.onnx: no ONNX file, or it was altered or cut short
  [1]
