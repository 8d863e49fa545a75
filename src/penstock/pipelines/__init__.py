"""The pipelines that come with Penstock, one package each: what users run without writing a workflow of their own."""
