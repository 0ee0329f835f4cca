//! What the library logs, for the whole process: a test looks for the ids of its own events.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

/// One event of the log, its fields in one text too.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) name: &'static str,
    pub(crate) fields: BTreeMap<&'static str, String>,
    pub(crate) text: String,
}

struct Keep;

#[derive(Default)]
struct Fields {
    text: String,
    each: BTreeMap<&'static str, String>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.text, "{field}={value:?} ");
        self.each.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &value);
        self.each.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("hare_seaorm") {
            let mut fields = Fields::default();
            event.record(&mut fields);
            LINES.lock().unwrap().push(Line {
                level: *event.metadata().level(),
                name: event.metadata().name(),
                fields: fields.each,
                text: fields.text,
            });
        }
    }
}

/// Keeps what is logged from now on, and knows of spans which trace they belong to.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let registry = tracing_subscriber::registry();
        let subscriber = registry.with(Keep).with(tracing_opentelemetry::layer());
        tracing::subscriber::set_global_default(subscriber).unwrap()
    });
}

/// Everything logged that names this.
pub(crate) fn about(what: &impl ToString) -> Vec<Line> {
    let what = what.to_string();
    LINES
        .lock()
        .unwrap()
        .iter()
        .filter(|line| line.text.contains(&what))
        .cloned()
        .collect()
}
