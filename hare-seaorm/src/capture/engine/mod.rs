//! The one place that writes rows and events.
