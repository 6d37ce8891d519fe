// The planner's arithmetic; a test compares it with planning.py.
export function estimate(given) {
  const training = given.tokens / Math.max(given.tokens_per_s, 1e-9);
  const evaluation = training * given.evaluation_share;
  const restart = given.restarts * (training / Math.max(given.checkpoints, 1)) / 2;
  const total = training + evaluation + restart;
  return {
    training_s: training, evaluation_s: evaluation, restart_s: restart, total_s: total, cost: total / 3600 * given.price_per_hour, flops: 6 * given.parameters * given.tokens,
    disk_bytes: given.checkpoints * given.checkpoint_bytes, tokens_per_parameter: given.tokens / Math.max(given.parameters, 1), epochs: given.usable_tokens > 0 ? given.tokens / given.usable_tokens : null,
  };
}
