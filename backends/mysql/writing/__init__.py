"""The writing of a group: its transactions (`writer`) and its partitions (`partitioner`)."""
