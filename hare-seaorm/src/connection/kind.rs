//! What kind of connection a `C: ConnectionTrait` is. The only place with `unsafe` code.
//!
//! SeaORM hands us `&C` with no `'static` bound, so `Any` cannot be used: types are told apart with [`typeid::of`], which
//! ignores lifetimes. A cast is sound where the target type has no lifetime parameter, or is covariant in it and is given no
//! longer one than the reference itself.
#![allow(
    unsafe_code,
    reason = "the casts described above, each with its argument beside it"
)]

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{OnceLock, PoisonError, RwLock};

use sea_orm::sea_query::{DeleteStatement, InsertStatement, SelectStatement, UpdateStatement, WithQuery};
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseExecutor, DatabaseTransaction};

use super::Conn;
use crate::transaction::{Session, Transaction};

/// What stands behind a connection that a captured write was given.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// A pool: every statement may take another connection, so a captured write opens a transaction of its own.
    Pool(&'a DatabaseConnection),
    /// A plain SeaORM transaction, or a registered type that is one.
    Transaction(Plain<'a>),
    /// Our transaction, which also carries signals and knows when it is spoiled.
    Capturing(&'a Session),
    /// A type that nobody registered.
    Unknown(&'static str),
}

/// A transaction of which nobody but its owner sees the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain<'a> {
    /// What it is told by.
    pub(crate) address: usize,
    /// SeaORM's own; `None` for a registered type.
    #[cfg_attr(not(feature = "stream"), expect(dead_code, reason = "only streams need it"))]
    pub(crate) sea_orm: Option<&'a DatabaseTransaction>,
}

/// What a registered connection type really is; see [`register`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectionRef<'a> {
    /// It stands for a pool. Captured writes begin their transaction on this one.
    Pool(&'a DatabaseConnection),
    /// It is inside an open transaction: all its statements go to one database session until that ends.
    Transaction,
}

type Look = Box<dyn Fn(*const ()) -> Erased + Send + Sync>;

/// A [`ConnectionRef`] without its lifetime; given it back in [`of`].
enum Erased {
    Pool(*const DatabaseConnection),
    Transaction,
}

fn registry() -> &'static RwLock<HashMap<TypeId, Look>> {
    static REGISTRY: OnceLock<RwLock<HashMap<TypeId, Look>>> = OnceLock::new();
    REGISTRY.get_or_init(RwLock::default)
}

/// Teaches the library a connection type of your own, so that captured writes can go through it.
///
/// Call it once at start, before the first write. A second call for the same type replaces the first. For a transaction,
/// statements go through your type; for a pool, captured writes and own events run on the pool that `look` names.
///
/// # Safety
/// `C` has no lifetime parameter. (Types are told apart without their lifetimes, so `look` may be given a `C` with a shorter one
/// than it was written for.)
///
/// ```
/// use hare_seaorm::connection::{ConnectionRef, register};
/// # use sea_orm::*;
/// struct Audited { pool: DatabaseConnection }
/// # #[async_trait::async_trait]
/// # impl ConnectionTrait for Audited {
/// #   fn get_database_backend(&self) -> DbBackend { self.pool.get_database_backend() }
/// #   async fn execute_raw(&self, s: Statement) -> Result<ExecResult, DbErr> { self.pool.execute_raw(s).await }
/// #   async fn execute_unprepared(&self, s: &str) -> Result<ExecResult, DbErr> { self.pool.execute_unprepared(s).await }
/// #   async fn query_one_raw(&self, s: Statement) -> Result<Option<QueryResult>, DbErr> { self.pool.query_one_raw(s).await }
/// #   async fn query_all_raw(&self, s: Statement) -> Result<Vec<QueryResult>, DbErr> { self.pool.query_all_raw(s).await }
/// # }
///
/// // SAFETY: `Audited` has no lifetime parameter.
/// unsafe { register::<Audited>(|audited| ConnectionRef::Pool(&audited.pool)) };
/// ```
pub unsafe fn register<C: ConnectionTrait + 'static>(look: fn(&C) -> ConnectionRef<'_>) {
    let erased: Look = Box::new(move |connection| {
        // SAFETY: `of` calls this only under the `TypeId` of `C`, with a pointer made from a live `&C`; that no lifetime of `C` is
        // lost in between is the caller's promise.
        match look(unsafe { &*connection.cast::<C>() }) {
            ConnectionRef::Pool(pool) => Erased::Pool(pool),
            ConnectionRef::Transaction => Erased::Transaction,
        }
    });
    registry()
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(TypeId::of::<C>(), erased);
}

/// What `connection` is.
pub(crate) fn of<C: ConnectionTrait>(connection: &C) -> Kind<'_> {
    let id = typeid::of::<C>();
    let address = std::ptr::from_ref(connection).cast::<()>();
    if id == TypeId::of::<DatabaseConnection>() {
        // SAFETY: `C` is `DatabaseConnection`, which has no lifetime parameter.
        return Kind::Pool(unsafe { &*address.cast() });
    }
    if id == TypeId::of::<DatabaseTransaction>() {
        // SAFETY: `C` is `DatabaseTransaction`, which has no lifetime parameter.
        return of_transaction(unsafe { &*address.cast() });
    }
    if id == TypeId::of::<Transaction>() {
        // SAFETY: `C` is `Transaction`, which has no lifetime parameter.
        let transaction: &Transaction = unsafe { &*address.cast() };
        return Kind::Capturing(transaction.session());
    }
    if id == typeid::of::<DatabaseExecutor<'_>>() {
        // SAFETY: `C` is `DatabaseExecutor<'x>` with `'x` outliving the borrow; it is covariant in `'x` (it holds `&'x`
        // references only), so it may be seen with the borrow's shorter lifetime.
        let executor: &DatabaseExecutor<'_> = unsafe { &*address.cast() };
        return match executor {
            DatabaseExecutor::Connection(pool) => Kind::Pool(pool),
            DatabaseExecutor::Transaction(transaction) => of_transaction(transaction),
            DatabaseExecutor::OwnedTransaction(transaction) => of_transaction(transaction),
        };
    }
    if let Some(conn) = conn_in(connection) {
        return conn.kind();
    }
    match registry()
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&id)
        .map(|look| look(address))
    {
        // SAFETY: `look` derived the pointer from `connection` with its lifetime, which is the lifetime given back here.
        Some(Erased::Pool(pool)) => Kind::Pool(unsafe { &*pool }),
        Some(Erased::Transaction) => Kind::Transaction(Plain {
            address: address.addr(),
            sea_orm: None,
        }),
        None => Kind::Unknown(std::any::type_name::<C>()),
    }
}

/// The connection as the view that it is already: the code of a captured write was given one.
pub(crate) fn conn_in<C: ConnectionTrait>(connection: &C) -> Option<&Conn<'_>> {
    let address = std::ptr::from_ref(connection).cast::<()>();
    // SAFETY: `C` is `Conn<'x>` with `'x` outliving the borrow; it holds a `&'x dyn` reference and a `Kind<'x>`, both covariant, so
    // it may be seen with the borrow's shorter lifetime.
    (typeid::of::<C>() == typeid::of::<Conn<'_>>()).then(|| unsafe { &*address.cast() })
}

/// A transaction of SeaORM's may be the one inside ours, reached through `Deref`.
fn of_transaction(transaction: &DatabaseTransaction) -> Kind<'_> {
    match sessions::find(transaction) {
        Some(session) => Kind::Capturing(session),
        None => Kind::Transaction(Plain {
            address: std::ptr::from_ref(transaction).addr(),
            sea_orm: Some(transaction),
        }),
    }
}

/// Our sessions, by the address of the SeaORM transaction inside.
pub(crate) mod sessions {
    use std::collections::HashMap;
    use std::sync::{OnceLock, PoisonError, RwLock};

    use sea_orm::DatabaseTransaction;

    use crate::transaction::Session;

    struct Place(*const Session);

    // SAFETY: a `Session` may be shared between threads (it is `Sync`: it holds locks and an `Arc`).
    unsafe impl Send for Place {}
    // SAFETY: as above.
    unsafe impl Sync for Place {}

    const _: () = {
        const fn may_be_shared<T: Send + Sync>() {}
        may_be_shared::<Session>();
    };

    fn places() -> &'static RwLock<HashMap<usize, Place>> {
        static PLACES: OnceLock<RwLock<HashMap<usize, Place>>> = OnceLock::new();
        PLACES.get_or_init(RwLock::default)
    }

    /// Remembers where the session of `inner` is. It is boxed, and forgets itself before it goes.
    pub(crate) fn add(inner: &DatabaseTransaction, session: &Session) {
        let mut places = places().write().unwrap_or_else(PoisonError::into_inner);
        places.insert(std::ptr::from_ref(inner).addr(), Place(session));
    }

    pub(crate) fn remove(inner: &DatabaseTransaction) {
        let mut places = places().write().unwrap_or_else(PoisonError::into_inner);
        places.remove(&std::ptr::from_ref(inner).addr());
    }

    pub(crate) fn find(inner: &DatabaseTransaction) -> Option<&Session> {
        let places = places().read().unwrap_or_else(PoisonError::into_inner);
        let place = places.get(&std::ptr::from_ref(inner).addr())?;
        // SAFETY: the address is that of a transaction that is alive and borrowed. Only one lives there, and a borrow of the one
        // inside a session can only come from the `Deref` of the `Transaction` that owns the session, so the session lives as
        // long as the borrow.
        Some(unsafe { &*place.0 })
    }
}

/// The one of SeaORM's data statements that `S` is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DataStatement<'a> {
    Insert(&'a InsertStatement),
    Update(&'a UpdateStatement),
    Delete(&'a DeleteStatement),
    Select(&'a SelectStatement),
    With(&'a WithQuery),
}

/// Recognises a typed statement behind the generic `S: StatementBuilder`, so that it can pass through an object-safe
/// connection still typed.
pub(crate) fn downcast_statement<S>(statement: &S) -> Option<DataStatement<'_>> {
    fn cast<S, T: 'static>(statement: &S) -> Option<&T> {
        // SAFETY: equal ids mean the same type up to lifetimes, and `T: 'static` has none.
        (typeid::of::<S>() == TypeId::of::<T>()).then(|| unsafe { &*std::ptr::from_ref(statement).cast() })
    }
    None.or_else(|| cast(statement).map(DataStatement::Insert))
        .or_else(|| cast(statement).map(DataStatement::Update))
        .or_else(|| cast(statement).map(DataStatement::Delete))
        .or_else(|| cast(statement).map(DataStatement::Select))
        .or_else(|| cast(statement).map(DataStatement::With))
}
