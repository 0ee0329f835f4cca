//! One declaration for many entities.

use sea_orm::ConnectionTrait;

use super::change::CapturedChange;
use super::declaration::{CapturedEntity, EnvelopeForm, OnPool, Operations, Payload, Strategy};
use super::extension::{BoxError, Extension};
use crate::error::Error;
use crate::outbox::OutboxEntity;

/// What a service says once for all of its entities: `#[hare(capture(profile = Shop))]`. What an entity's own attributes say counts
/// more.
///
/// It is as visible as the entities that have it (else the compiler says E0446). Columns (`fields`, `exclude`, `sensitive`) and an entity's `name` are the entity's own; a sink is named by the entity.
///
/// ```
/// use hare_seaorm::capture::{CaptureProfile, CapturedChange, CapturedEntity, Payload, ProfileFunctions};
/// use hare_seaorm::{Error, outbox};
///
/// pub struct Shop;
///
/// impl CaptureProfile for Shop {
///     type Outbox = outbox::Entity;
///     type Functions = Self; // or `()`: none
///     const APP: Option<&'static str> = Some("shop");
///     const PAYLOAD: Payload = Payload::BeforeAndAfter;
///     const TOPIC: &'static str = "{app}/{model}/{operation}";
/// }
///
/// impl ProfileFunctions<outbox::Entity> for Shop {
///     /// Deletes are not ordered with the rest.
///     fn ordering_key<E: CapturedEntity>(change: &CapturedChange<E>) -> Result<Option<String>, Error> {
///         if change.after().is_none() {
///             return Ok(None);
///         }
///         change.templated_ordering_key()
///     }
/// }
///
/// pub mod order {
///     use hare_seaorm::ChangeCapture;
///     use sea_orm::entity::prelude::*;
///
///     #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
///     #[sea_orm(table_name = "order")]
///     #[hare(capture(profile = super::Shop, payload = "keys"))]
///     pub struct Model {
///         #[sea_orm(primary_key)]
///         pub id: i32,
///     }
///
///     #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
///     pub enum Relation {}
/// }
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no profile",
    note = "write `impl CaptureProfile for {Self}`"
)]
pub trait CaptureProfile {
    /// Where the events are written; `hare_seaorm::outbox::Entity` is the built-in outbox.
    type Outbox: OutboxEntity;

    /// The functions that make events of changes; `()` has none. An entity with an `outbox` of its own needs those of that outbox.
    type Functions: ProfileFunctions<Self::Outbox>;

    /// The service, first half of a label; `None` is what the crate of each entity says.
    const APP: Option<&'static str> = None;

    /// What an event holds.
    const PAYLOAD: Payload = Payload::After;

    /// What makes events.
    const OPERATIONS: Operations = Operations::ALL;

    /// The topic's template: of `{app}`, `{model}`, `{table}`, `{operation}`; `{{` and `}}` are braces. A mistake in it is a compile
    /// error of the entities.
    const TOPIC: &'static str = "{app}.{model}.{operation}";

    /// The ordering key's template: of `{label}`, `{pk}`, `{app}`, `{model}`, `{table}`. `None` is unordered.
    const ORDERING_KEY: Option<&'static str> = Some("{label}:{pk}");

    /// How the payload presents the change.
    const ENVELOPE: EnvelopeForm = EnvelopeForm::Plain;

    /// Inserts and deletes of generic code without a transaction.
    const ON_POOL: OnPool = OnPool::Refuse;

    /// How writes are carried out.
    const STRATEGY: Strategy = Strategy::Auto;
}

/// The functions of a [`CaptureProfile`], each for every entity that has it. Without a function of its own, an event is what the
/// declaration says.
///
/// Rows are cloned for them; a profile whose `Functions` are `()` costs nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no functions for the outbox `{O}`",
    note = "write `impl ProfileFunctions<{O}> for {Self}`, or say `type Functions = ();` in the profile"
)]
pub trait ProfileFunctions<O: OutboxEntity> {
    /// Whether there are none: nothing is called then.
    #[doc(hidden)]
    const ARE_NONE: bool = false;

    /// The topic of a change. Empty or longer than 255 characters, it is an [`Error::Validation`] of the write.
    ///
    /// # Errors
    /// Its own. The write is undone.
    fn topic<E: CapturedEntity>(change: &CapturedChange<E>) -> Result<String, Error> {
        change.templated_topic()
    }

    /// The ordering key of a change; `None` is unordered. Empty or longer than 255 characters, it is an [`Error::Validation`] of the
    /// write.
    ///
    /// # Errors
    /// Its own. The write is undone.
    fn ordering_key<E: CapturedEntity>(change: &CapturedChange<E>) -> Result<Option<String>, Error> {
        change.templated_ordering_key()
    }

    /// What is added to the event of a change. Runs in the transaction of the write, on its connection `db`.
    fn extend<E: CapturedEntity, C: ConnectionTrait>(
        db: &C,
        change: CapturedChange<E>,
    ) -> impl Future<Output = Result<Option<Extension<O>>, BoxError>> + Send {
        let _ = (db, change);
        std::future::ready(Ok(None))
    }

    /// What is added to the events of all changes of a statement, or of one chunk of a large one: one answer for each, in their order.
    /// By default each through [`extend`](Self::extend).
    fn extend_many<E: CapturedEntity, C: ConnectionTrait>(
        db: &C,
        changes: Vec<CapturedChange<E>>,
    ) -> impl Future<Output = Result<Vec<Option<Extension<O>>>, BoxError>> + Send {
        async move {
            let mut extensions = Vec::with_capacity(changes.len());
            for change in changes {
                extensions.push(Self::extend(db, change).await?);
            }
            Ok(extensions)
        }
    }
}

/// None.
impl<O: OutboxEntity> ProfileFunctions<O> for () {
    const ARE_NONE: bool = true;
}
