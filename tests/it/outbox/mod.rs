mod enqueue;
mod status;
