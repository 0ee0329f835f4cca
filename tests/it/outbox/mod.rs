mod enqueue;
