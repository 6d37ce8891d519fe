"""The last third of a model's life on one small model: evaluated, fine-tuned, rated, exported, reloaded."""
