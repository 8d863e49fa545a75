"""The `penstock` command: one module for each group of commands. Modules are imported when their command is called."""
