//! The derive belongs on the `Model` of an entity.

use hare_seaorm::ChangeCapture;

#[derive(ChangeCapture)]
pub enum Status {
    Lent,
}

#[derive(ChangeCapture)]
pub union Bits {
    pub number: u32,
}

#[derive(ChangeCapture)]
pub struct Loan {
    pub id: i32,
}

mod tuple {
    #[derive(hare_seaorm::ChangeCapture)]
    pub struct Model(pub i32);
}

mod unit {
    #[derive(hare_seaorm::ChangeCapture)]
    pub struct Model;
}

mod generic {
    #[derive(hare_seaorm::ChangeCapture)]
    pub struct Model<T> {
        pub id: T,
    }
}

fn main() {}
