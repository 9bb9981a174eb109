"""Shared ground of ebbtide: what more than one of its programs needs.

`vocabulary` names every word on cluster objects, `model` holds the frozen facts read from them and `shapes` which
fields that takes, `config` the settings, `kube` the only way to the API server, `service` what every long-running
process has. `exclusion` says which zones a pod must avoid, `notices` how a notice of AWS gets onto a node, `http1`
speaks HTTP where a framework would be too heavy, `connecting` words why there was no connection, `counting` counts
things, `likeness` guesses which word was meant, `clock` hands time in, `errors` are failures that end a program.
`preflight` looks for what would defeat a block, `cleanup` removes what the product has set, `agent` is the program on
every node, `sim` the embedded cluster, and `cli` the commands (the top layer, although it lies here).
"""
