A row for each number of threads and size of prompt; what does not fit the context is left out.

  $ mica bench model -p 4,16,4000 -n 3 -t 1,2 -r 2 2> err | tail -5 | awk '{ print $1, $2, $4, NF }'
  $ sort -u err

The same as JSON.

  $ mica bench model -p 4,16 -n 3 -t 1 -r 1 --json | sed 's/_rate": [0-9.]*/_rate": N/g; s/: [0-9]*}/: N}/' | tail -6
  $ mica bench model -p 4000 2>&1 > /dev/null
