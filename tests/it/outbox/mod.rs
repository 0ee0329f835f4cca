mod enqueue;
mod own;
