package web

import (
	"net/http"
	"slices"

	"sluice/internal/access"
	"sluice/web/view"
)

// listTokens shows the API tokens in force, and those that are not any more.
func (s *Server) listTokens(v *visit) error {
	tokens, err := s.deps.Admin.Tokens.ListTokens(v.ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(tokens, func(a, b access.Token) int { return b.CreatedAt.Compare(a.CreatedAt) })
	now, m := s.deps.Now(), view.TokenList{}
	for i := range tokens {
		if tokens[i].InForce(now) == nil {
			m.Live = append(m.Live, tokens[i])
		} else {
			m.Over = append(m.Over, tokens[i])
		}
	}
	return v.page(http.StatusOK, view.TokensPage(v.frame("API tokens", pathPeople), m))
}
