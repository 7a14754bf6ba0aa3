/* Chapters come before single scenarios, suites and files, whose texts have many words in common; titles count. */
var Scorer = {
  score: ([docname, title, anchor, descr, score]) =>
    score < 15 && /^((scenarios|suites|source)\/|changelog$)/.test(docname) ? score - 3 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
