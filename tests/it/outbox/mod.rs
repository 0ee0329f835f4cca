mod abort;
mod delayed;
mod enqueue;
mod idempotency;
mod many;
mod payload;
