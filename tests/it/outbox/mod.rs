mod abort;
mod columns;
mod delayed;
mod enqueue;
mod idempotency;
mod many;
mod own;
mod payload;
