"""A transformer trained with pipeline and data parallelism: costs, memory, and changes of the plan."""
