"""The shell touches the world: the API server, kopf, the process, metrics. It should be boring."""
