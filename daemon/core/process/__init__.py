"""The process itself and those that it starts: children, open files, the processor, the state folder and its lock."""
