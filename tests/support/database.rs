//! A database of its own for each test, on each backend.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, QueryResult, Statement,
};
use sea_orm_migration::prelude::*;

use crate::gate::Gate;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Postgres,
    MariaDb,
    Sqlite,
}

/// The library's migrations and nothing else.
#[derive(Debug)]
pub struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        hare_seaorm_migration::migrations()
    }
}

/// A database that exists for one test. Dropped with it.
#[derive(Debug)]
pub struct TestDb {
    pub db: DatabaseConnection,
    pub backend: Backend,
    pub url: String,
    home: Home,
}

#[derive(Debug)]
enum Home {
    Server { admin: String, name: String },
    File(#[expect(dead_code, reason = "removes the folder when dropped")] tempfile::TempDir),
}

impl std::ops::Deref for TestDb {
    type Target = DatabaseConnection;
    fn deref(&self) -> &DatabaseConnection {
        &self.db
    }
}

fn server_url(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}

fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!(
        "hare_test_{}_{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

async fn admin_connection(url: &str) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(1)
        .connect_timeout(Duration::from_secs(10))
        .sqlx_logging(false);
    Database::connect(options).await.unwrap_or_else(|error| {
        panic!("no database server at {url}: run `scripts/services up` first ({error})")
    })
}

impl TestDb {
    /// A database with the outbox table in it.
    pub async fn new(backend: Backend) -> Self {
        let empty = Self::empty(backend).await;
        Migrator::up(&empty.db, None)
            .await
            .expect("the library's migrations apply");
        empty
    }

    /// What the test macros call.
    pub async fn make(backend: Backend) -> Self {
        Self::new(backend).await
    }

    /// A database with nothing in it.
    pub async fn empty(backend: Backend) -> Self {
        let (url, home) = match backend {
            Backend::Postgres => {
                create_on_server(server_url(
                    "HARE_TEST_POSTGRES_URL",
                    "postgres://postgres@127.0.0.1:5432/postgres",
                ))
                .await
            }
            Backend::MariaDb => {
                create_on_server(server_url(
                    "HARE_TEST_MARIADB_URL",
                    "mysql://root@127.0.0.1:3306/mysql",
                ))
                .await
            }
            Backend::Sqlite => {
                let folder = tempfile::tempdir().expect("a folder for the database file");
                let url = format!("sqlite://{}?mode=rwc", folder.path().join("test.db").display());
                (url, Home::File(folder))
            }
        };
        let db = connect(&url, 10).await;
        Self {
            db,
            backend,
            url,
            home,
        }
    }

    /// Another pool on the same database, of at most `connections`.
    pub async fn another_pool(&self, connections: u32) -> DatabaseConnection {
        connect(&self.url, connections).await
    }

    /// A pool whose answers pass a gate. Not on SQLite, which has no server: nothing passes its gate.
    pub async fn gated_pool(&self, connections: u32) -> (DatabaseConnection, Gate) {
        if self.backend == Backend::Sqlite {
            return (self.another_pool(connections).await, Gate::unused());
        }
        let (scheme, rest) = self.url.split_once("://").expect("a url");
        let (login, place) = rest.split_once('@').expect("a url with a login");
        let (server, database) = place.split_once('/').expect("a url with a database");
        let server = server
            .parse()
            .unwrap_or_else(|_| panic!("the gate needs the server as address and port: {server}"));
        let (address, gate) = Gate::before(server);
        let ssl = if self.backend == Backend::Postgres {
            "?sslmode=disable"
        } else {
            "?ssl-mode=disabled"
        };
        (
            connect(
                &format!("{scheme}://{login}@{address}/{database}{ssl}"),
                connections,
            )
            .await,
            gate,
        )
    }

    pub async fn execute(&self, sql: &str) {
        self.db
            .execute_unprepared(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub async fn rows(&self, sql: &str) -> Vec<QueryResult> {
        let statement = Statement::from_string(self.db.get_database_backend(), sql);
        self.db
            .query_all_raw(statement)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    pub async fn count(&self, table: &str) -> i64 {
        self.rows(&format!("SELECT COUNT(*) FROM {table}")).await[0]
            .try_get_by_index(0)
            .expect("a number")
    }

    pub fn is(&self, backend: DbBackend) -> bool {
        self.db.get_database_backend() == backend
    }
}

async fn create_on_server(admin: String) -> (String, Home) {
    let name = unique_name();
    let server = admin_connection(&admin).await;
    server
        .execute_unprepared(&format!("DROP DATABASE IF EXISTS {name}"))
        .await
        .expect("a leftover can be dropped");
    server
        .execute_unprepared(&format!("CREATE DATABASE {name}"))
        .await
        .expect("a database can be created");
    server.close().await.expect("the connection closes");
    let (host, _) = admin.rsplit_once('/').expect("the url ends in a database name");
    (format!("{host}/{name}"), Home::Server { admin, name })
}

async fn connect(url: &str, connections: u32) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(connections)
        .min_connections(0)
        .acquire_timeout(Duration::from_secs(20))
        .sqlx_logging(false)
        .map_sqlx_sqlite_opts(|sqlite| {
            sqlite
                .journal_mode(sea_orm::sqlx::sqlite::SqliteJournalMode::Wal)
                .busy_timeout(Duration::from_secs(20))
        });
    Database::connect(options)
        .await
        .unwrap_or_else(|error| panic!("no connection to {url}: {error}"))
}

impl Drop for TestDb {
    /// A runtime of its own, because the test's is ending.
    fn drop(&mut self) {
        let Home::Server { admin, name } = &self.home else {
            return;
        };
        let (admin, name) = (admin.clone(), name.clone());
        let force = if self.backend == Backend::Postgres {
            " WITH (FORCE)"
        } else {
            ""
        };
        let sql = format!("DROP DATABASE IF EXISTS {name}{force}");
        let dropper = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let server = admin_connection(&admin).await;
                let _ = server.execute_unprepared(&sql).await;
            });
        });
        let _ = dropper.join();
    }
}

/// A database with nothing in it, for the test macros.
#[derive(Debug)]
pub struct Empty;

impl Empty {
    pub async fn make(backend: Backend) -> TestDb {
        TestDb::empty(backend).await
    }
}

/// Makes of one async test function with a [`TestDb`] (or [`Empty`], or [`crate::Shop`]) a test per backend.
///
/// ```text
/// on_every_backend! {
///     // catalogue A1
///     async fn events_are_delivered_in_sequence(t: TestDb) { .. }
/// }
/// on_backends! { [postgres, mariadb]
///     async fn two_sessions(t: TestDb) { .. }
/// }
/// ```
#[macro_export]
macro_rules! on_every_backend {
    (async fn $name:ident($t:ident: $kind:ident) $body:block $($rest:tt)*) => {
        $crate::on_backends! { [postgres, mariadb, sqlite] async fn $name($t: $kind) $body }
        $crate::on_every_backend! { $($rest)* }
    };
    () => {};
}

#[macro_export]
macro_rules! on_backends {
    ([$($backend:ident),+] async fn $name:ident($t:ident: $kind:ident) $body:block $($rest:tt)*) => {
        mod $name {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $backend() {
                    let $t = $kind::make($crate::backend!($backend)).await;
                    $body
                }
            )+
        }
        $crate::on_backends! { @rest [$($backend),+] $($rest)* }
    };
    (@rest [$($backend:ident),+]) => {};
    (@rest [$($backend:ident),+] $($rest:tt)+) => { $crate::on_backends! { [$($backend),+] $($rest)+ } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! backend {
    (postgres) => {
        $crate::Backend::Postgres
    };
    (mariadb) => {
        $crate::Backend::MariaDb
    };
    (sqlite) => {
        $crate::Backend::Sqlite
    };
}

/// Waits until some session of the server waits for a lock in this database, told by the server itself.
pub async fn until_someone_waits_for_a_lock(t: &TestDb) {
    let sql = match t.backend {
        Backend::Postgres => {
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        }
        Backend::MariaDb => {
            "SELECT COUNT(*) FROM information_schema.INNODB_TRX x JOIN information_schema.PROCESSLIST p \
             ON p.ID = x.trx_mysql_thread_id WHERE x.trx_state = 'LOCK WAIT' AND p.DB = DATABASE()"
        }
        Backend::Sqlite => panic!("SQLite does not tell who waits"),
    };
    // MariaDB answers from a copy that it renews only if nobody has read it for a tenth of a second.
    let pause = Duration::from_millis(if t.backend == Backend::MariaDb { 150 } else { 1 });
    let waits = async {
        while t.rows(sql).await[0].try_get_by_index::<i64>(0).expect("a number") == 0 {
            tokio::time::sleep(pause).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waits)
        .await
        .expect("a session waits for a lock");
}
