//! Mistakes in attributes are compile errors at the wrong word.
//!
//! Each case is named by its mistake. `TRYBUILD=overwrite` writes the messages anew: read each before committing it.

use trybuild::TestCases;

// catalogue F2
// catalogue F5
// catalogue F7
#[test]
fn a_word_that_is_not_known_is_answered_with_the_nearest() {
    TestCases::new().compile_fail("ui/unknown-attribute/*.rs");
}

#[test]
fn a_word_given_twice_is_refused_at_both() {
    TestCases::new().compile_fail("ui/duplicate-attribute/*.rs");
}

// catalogue F5
#[test]
fn words_that_exclude_each_other_are_refused_at_both() {
    TestCases::new().compile_fail("ui/conflict/*.rs");
}

// catalogue F7
#[test]
fn a_value_of_the_wrong_form_is_refused() {
    TestCases::new().compile_fail("ui/malformed/*.rs");
}

// catalogue F5
// catalogue F11
#[test]
fn what_cannot_be_captured_is_refused() {
    TestCases::new().compile_fail("ui/unsupported/*.rs");
}

// catalogue F2
// catalogue F3
// catalogue F4
#[test]
fn every_accepted_form_compiles_without_a_warning_and_declares_what_it_says() {
    TestCases::new().pass("ui/pass/*.rs");
}
