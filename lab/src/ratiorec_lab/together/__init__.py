"""Several processes that train one model: how they are started, and what each of them tells."""
