"""The writing of a group without transactions (`writer`), and documents that are there already (`conflicts`)."""
