mod abort;
mod atomicity;
mod declaration;
mod generic;
mod hooks;
mod shared;
mod single;
mod types;
