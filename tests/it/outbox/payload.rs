//! What a payload says reaches the receiver to the letter.

use hare_seaorm::outbox::{Model, enqueue};
use hare_seaorm::{MemoryDelivery, OutboxMessage, OutboxRelay};
use hare_seaorm_tests::{TestDb, on_every_backend};
use sea_orm::prelude::Decimal;
use serde::Serialize;
use serde_json::value::RawValue;

/// Writes it, delivers it, and gives what arrived.
async fn delivered(t: &TestDb, payload: &impl Serialize) -> Model {
    enqueue(&t.db, OutboxMessage::new("t", payload).unwrap())
        .await
        .unwrap();
    let delivery = MemoryDelivery::new();
    OutboxRelay::new(t.db.clone(), delivery.clone())
        .flush(10)
        .await
        .unwrap();
    delivery.events().pop().expect("it arrives")
}

on_every_backend! {
    // catalogue B9
    async fn no_digit_is_lost_on_the_way_to_the_receiver(t: TestDb) {
        assert_eq!(delivered(&t, &(1_i128 << 70)).await.payload.as_str(), "1180591620717411303424");
        assert_eq!(delivered(&t, &i128::MIN).await.payload.as_str(), i128::MIN.to_string());
        assert_eq!(delivered(&t, &1_234_567_890_123_456_789_i64).await.payload.as_str(), "1234567890123456789");
        let decimal = RawValue::from_string("{\"fee\": 0.1000, \"rate\":1E+2}".to_owned()).unwrap();
        assert_eq!(delivered(&t, &decimal).await.payload.as_str(), "{\"fee\": 0.1000, \"rate\":1E+2}");
    }

    // catalogue B2
    async fn a_decimal_keeps_its_scale_as_serde_gives_it_and_as_a_captured_column_has_it(t: TestDb) {
        #[derive(Serialize)]
        struct Fee {
            #[serde(serialize_with = "hare_seaorm::json::as_column")]
            captured: Decimal,
            own: Decimal,
        }
        let fee: Decimal = "0.1000".parse().unwrap();
        let arrived = delivered(&t, &Fee { captured: fee, own: fee }).await;
        assert_eq!(arrived.payload.as_str(), r#"{"captured":"0.1000","own":"0.1000"}"#);
    }

    // catalogue B1, A5
    async fn a_text_of_a_megabyte_arrives_whole(t: TestDb) {
        let text: String = "añ漢😀\"\\\n\u{1}/ ".chars().cycle().take(1_000_000).collect();
        let arrived = delivered(&t, &text).await;
        assert!(arrived.payload.as_str() == serde_json::to_string(&text).unwrap(), "to the letter");
        assert!(arrived.payload.parse::<String>().unwrap() == text);
    }
}
