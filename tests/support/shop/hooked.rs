//! An entity with hooks of its own, which note that they ran and fail on demand.

use std::sync::Mutex;

use hare_seaorm::ChangeCapture;
use sea_orm::entity::prelude::*;
use sea_orm::{NotSet, Set};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
#[sea_orm(table_name = "hooked")]
#[hare(capture(app = "shop", payload = "before_and_after", hooks))]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i32,
    pub name: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

tokio::task_local! {
    /// What ran in this task, in order.
    static RAN: Mutex<Vec<String>>;
}

/// Runs `work` and tells which hooks ran in it.
pub async fn hooks_of<T>(work: impl Future<Output = T>) -> (T, Vec<String>) {
    RAN.scope(Mutex::default(), async {
        let value = work.await;
        (value, RAN.with(|ran| std::mem::take(&mut *ran.lock().unwrap())))
    })
    .await
}

fn ran(what: String) {
    let _ = RAN.try_with(|ran| ran.lock().unwrap().push(what));
}

#[hare_seaorm::behavior]
impl ActiveModelBehavior for ActiveModel {
    fn new() -> Self {
        Self {
            id: NotSet,
            name: Set("fresh".to_owned()),
        }
    }

    async fn before_save<C>(mut self, _db: &C, insert: bool) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        ran(format!("before_save {insert}"));
        if let Set(name) = &self.name {
            self.name = Set(name.trim().to_owned());
        }
        Ok(self)
    }

    async fn after_save<C>(model: Model, _db: &C, insert: bool) -> Result<Model, DbErr>
    where
        C: ConnectionTrait,
    {
        ran(format!("after_save {insert} {}", model.name));
        if model.name == "refuse" {
            return Err(DbErr::Custom("the hook refused".to_owned()));
        }
        Ok(model)
    }

    async fn before_delete<C>(self, _db: &C) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        ran("before_delete".to_owned());
        Ok(self)
    }

    async fn after_delete<C>(self, _db: &C) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        ran("after_delete".to_owned());
        Ok(self)
    }
}
