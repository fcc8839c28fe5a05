"""The parts of `bench.protection`: the loop without a cluster, lies, scores and the plot."""
