mod enqueue;
mod idempotency;
mod many;
mod payload;
