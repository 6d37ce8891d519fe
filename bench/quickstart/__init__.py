"""The main job measured: how long the quickstart takes and what its model beats."""
