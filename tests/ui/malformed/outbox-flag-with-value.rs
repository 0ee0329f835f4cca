use hare_seaorm::outbox_event;

#[outbox_event(table_name = "billing_outbox", hooks = true, crate = hare)]
pub struct Model {}

impl sea_orm::ActiveModelBehavior for ActiveModel {}

fn main() {}
