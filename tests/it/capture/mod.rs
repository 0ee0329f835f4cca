mod abort;
mod atomicity;
mod declaration;
mod generic;
mod hooks;
mod single;
mod types;
