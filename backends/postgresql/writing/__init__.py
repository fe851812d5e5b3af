"""The writing of a group: its transactions (`writer`), one trigger in one statement (`single`), its partitions."""
