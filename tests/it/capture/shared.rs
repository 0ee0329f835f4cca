//! Several writes at once in one transaction: none undoes another.

use hare_seaorm::Error;
use hare_seaorm_tests::shop::{plain, widget};
use hare_seaorm_tests::{Shop, on_backends, on_every_backend};
use sea_orm::{ActiveModelTrait, ConnectionTrait, DbErr, Set, TransactionTrait, Unchanged};

type Widget = widget::both::ActiveModel;

fn new(name: &str) -> Widget {
    Widget {
        name: Set(name.to_owned()),
        ..Default::default()
    }
}

fn own() -> plain::ActiveModel {
    plain::ActiveModel {
        name: Set("own".to_owned()),
        ..Default::default()
    }
}

fn of_nothing() -> Widget {
    Widget {
        id: Unchanged(999),
        size: Set(1),
        ..Default::default()
    }
}

on_every_backend! {
    async fn captured_writes_beside_each_other_are_all_kept(t: Shop) {
        let ours = hare_seaorm::begin(&t.db).await.unwrap();
        let (a, b, c) = tokio::join!(new("a").insert(&ours), new("b").insert(&ours), new("c").insert(&ours));
        for written in [a, b, c] {
            written.unwrap();
        }
        ours.commit().await.unwrap();

        let plain = t.db.begin().await.unwrap();
        let (a, b) = tokio::join!(new("a").insert(&plain), new("b").insert(&plain));
        for written in [a, b] {
            written.unwrap();
        }
        plain.commit().await.unwrap();
        assert_eq!((t.count("widget").await, t.count("hare_outbox").await), (5, 5));
    }

    async fn a_captured_write_that_fails_undoes_nothing_of_its_neighbours(t: Shop) {
        let existing = new("existing").insert(&t.db).await.unwrap();
        let twin = || Widget { id: Set(existing.id), name: Set("twin".to_owned()), ..Default::default() };
        for _ in 0..10 {
            let txn = hare_seaorm::begin(&t.db).await.unwrap();
            let (missing, twin, plain, good) = tokio::join!(
                of_nothing().update(&txn),
                twin().insert(&txn),
                own().insert(&txn),
                new("good").insert(&txn),
            );
            assert_eq!(missing, Err(DbErr::RecordNotUpdated));
            assert!(twin.unwrap_err().sql_err().is_some());
            plain.unwrap();
            good.unwrap();
            txn.commit().await.unwrap();
        }
        assert_eq!(t.count("plain").await, 10);
        assert_eq!((t.count("widget").await, t.count("hare_outbox").await), (11, 11));
    }

    async fn an_update_of_nothing_undoes_nothing_in_a_plain_transaction(t: Shop) {
        for _ in 0..10 {
            let txn = t.db.begin().await.unwrap();
            let (missing, plain) = tokio::join!(of_nothing().update(&txn), own().insert(&txn));
            assert_eq!(missing, Err(DbErr::RecordNotUpdated));
            plain.unwrap();
            txn.commit().await.unwrap();
        }
        assert_eq!(t.count("plain").await, 10);
    }

    async fn a_write_beside_an_unfinished_generic_one_is_refused(t: Shop) {
        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        let (generic, second, third) = tokio::join!(
            ActiveModelTrait::insert(new("a"), &txn),
            ActiveModelTrait::insert(new("b"), &txn),
            new("c").insert(&txn),
        );
        generic.unwrap();
        for refused in [second, third] {
            // Whoever comes after the first has ended is not refused.
            if let Err(error) = refused {
                assert!(matches!(Error::find(&error), Some(Error::Unsupported { .. })), "{error:?}");
            }
        }
        let rows = t.count("widget").await;
        assert_eq!(rows, 0, "not committed yet");
        txn.commit().await.unwrap();
        assert_eq!(t.count("widget").await, t.count("hare_outbox").await);
        assert!(t.count("widget").await >= 1);
    }

    async fn a_generic_write_that_cannot_be_undone_alone_forbids_the_commit(t: Shop) {
        t.execute("ALTER TABLE hare_outbox RENAME TO elsewhere").await;
        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        let beside = async {
            // In its turn between the two hooks, or before or after both.
            own().insert(&txn).await
        };
        let (generic, beside) = tokio::join!(ActiveModelTrait::insert(new("a"), &txn), beside);
        generic.unwrap_err();
        let committed = txn.commit().await;
        let kept = t.count("plain").await;
        assert_eq!(t.count("widget").await, 0);
        match (beside, committed) {
            (Ok(_), Ok(())) => assert_eq!(kept, 1, "what was answered with Ok and committed is there"),
            _ => assert_eq!(kept, 0),
        }
    }
}

on_backends! { [mariadb]
    async fn a_deadlock_of_any_statement_forbids_the_commit(t: Shop) {
        let (a, b) = (new("a").insert(&t.db).await.unwrap(), new("b").insert(&t.db).await.unwrap());
        t.take_events().await;
        let touch = |id: i32, size: i32| format!("UPDATE widget SET size = {size} WHERE id = {id}");

        let heavy = t.db.begin().await.unwrap();
        for _ in 0..5 {
            own().insert(&heavy).await.unwrap();
        }
        heavy.execute_unprepared(&touch(b.id, 2)).await.unwrap();
        let light = hare_seaorm::begin(&t.db).await.unwrap();
        light.execute_unprepared(&touch(a.id, 3)).await.unwrap();
        let last = touch(a.id, 2);
        let heavy = tokio::spawn(async move {
            heavy.execute_unprepared(&last).await.unwrap();
            heavy.commit().await.unwrap();
        });
        hare_seaorm_tests::database::until_someone_waits_for_a_lock(&t).await;
        light.execute_unprepared(&touch(b.id, 3)).await.unwrap_err();
        heavy.await.unwrap();

        // What came next would be committed by itself.
        let error = new("c").insert(&light).await.unwrap_err();
        assert!(error.to_string().contains("the transaction is gone"), "{error}");
        ActiveModelTrait::insert(new("c"), &light).await.unwrap_err();
        light.commit().await.unwrap_err();
        assert_eq!((t.count("widget").await, t.count("hare_outbox").await), (2, 0));
    }
}
