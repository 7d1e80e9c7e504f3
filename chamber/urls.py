"""Every URL: each app's pages, its part of the API, and the project's own."""

from django.urls import include, path, register_converter

from chamber import (
    health,
    views,
    views_again,
    views_mails,
    views_policy,
    views_settings,
    views_sign_in,
    views_tokens,
    views_viewing,
)
from chamber.factors import sign_in as factors_sign_in
from chamber.factors import views as factors
from chamber.metrics.view import metrics
from chamber.oidc import views as oidc
from chamber.oidc import views_groups as provider_groups
from chamber.people import csv_views, export_views, role_views
from chamber.people import views as people
from chamber.scim import views as scim
from chamber.services import views as services
from chamber.strength import strength
from teams.views import audit, classes, groups
from workloads.credentials import views as credentials
from workloads.data import views as data
from workloads.environments import views as environments


class WordConverter:
    """Letters and digits without a hyphen, which ends them."""

    regex = "[0-9A-Za-z]+"

    def to_python(self, value: str) -> str:
        """Return them."""
        return value

    def to_url(self, value: str) -> str:
        """Return them."""
        return value


register_converter(WordConverter, "word")

chamber_patterns = (
    [
        path("", views.overview, name="overview"),
        path("mine/", views.mine, name="mine"),
        path("settings/audit/", audit.audit, name="audit"),
        path("settings/audit/export/", audit.export, name="audit-export"),
        path("settings/groups/", groups.groups, name="groups"),
        path("settings/groups/<int:group_id>/", groups.group, name="group"),
        path("settings/groups/<int:group_id>/delete/", groups.delete, name="group-delete"),
        path(
            "settings/groups/<int:group_id>/people/<str:username>/remove/", groups.remove, name="group-remove"
        ),
        path("settings/", views_settings.own, name="settings"),
        path("settings/sessions/end-others/", views_settings.end_others, name="end-other-sessions"),
        path("settings/sessions/<int:session_id>/end/", views_settings.end_session, name="end-session"),
        path("settings/sign-in/", views_policy.sign_in, name="sign-in"),
        path("settings/sign-in/groups/", views_policy.add_group, name="sign-in-group-add"),
        path(
            "settings/sign-in/groups/<uuid:binding_id>/remove/",
            views_policy.remove_group,
            name="sign-in-group-remove",
        ),
        path("settings/provider-groups/", provider_groups.groups, name="provider-groups"),
        path("settings/provider-groups/<word:group_id>/", provider_groups.group, name="provider-group"),
        path("settings/classes/", classes.classes, name="classes"),
        path("settings/classes/new/", classes.new_class, name="class-new"),
        path("settings/classes/<slug:slug>/", classes.edit_class, name="class-edit"),
        path("settings/classes/<slug:slug>/act/", classes.act_on_class, name="class-act"),
        path("settings/tiers/new/", classes.new_tier, name="tier-new"),
        path("settings/tiers/<slug:slug>/", classes.edit_tier, name="tier-edit"),
        path("settings/tiers/<slug:slug>/act/", classes.act_on_tier, name="tier-act"),
        path("settings/mails/", views_mails.mails, name="mails"),
        path("settings/mails/<uuid:mail_id>/", views_mails.mail, name="mail"),
        path("settings/factors/", factors.factors, name="factors"),
        path("settings/factors/app/", factors.app, name="factor-app"),
        path("settings/factors/passkey/", factors.passkey, name="factor-passkey"),
        path("settings/factors/codes/", factors.codes, name="factor-codes"),
        path("settings/factors/<int:factor_id>/rename/", factors.rename, name="factor-rename"),
        path("settings/factors/<int:factor_id>/remove/", factors.remove, name="factor-remove"),
        path("settings/export/", export_views.export_own, name="export-own"),
        path("people/", people.people, name="people"),
        path("people-from-csv/", csv_views.preview, name="people-csv"),
        path("people-from-csv/invite/", csv_views.add, name="people-csv-add"),
        path("people/<str:username>/", people.one, name="person"),
        path("people/<str:username>/link/", people.link, name="person-link"),
        path("people/<str:username>/roles/", role_views.add, name="person-role-add"),
        path(
            "people/<str:username>/roles/<uuid:binding_id>/remove/",
            role_views.remove,
            name="person-role-remove",
        ),
        path("people/<str:username>/disable/", people.disable, name="person-disable"),
        path("people/<str:username>/enable/", people.enable, name="person-enable"),
        path("people/<str:username>/export/", export_views.export, name="person-export"),
        path("people/<str:username>/end-sessions/", people.end_sessions, name="person-end-sessions"),
        path("people/<str:username>/reset-factors/", people.reset_factors, name="person-reset-factors"),
        path(
            "people/<str:username>/providers/<slug:provider_id>/unlink/",
            people.unlink,
            name="person-unlink",
        ),
        path("people/<str:username>/view-as/", views_viewing.begin, name="view-as"),
        path("view-as/end/", views_viewing.end, name="view-as-end"),
        path("welcome/<str:secret>/", people.use_link, name="link"),
        path("tokens/", views_tokens.tokens, name="tokens"),
        path("tokens/<uuid:token_id>/revoke/", views_tokens.revoke_token, name="revoke-token"),
        path("settings/service-accounts/", services.services, name="service-accounts"),
        path("settings/service-accounts/<str:name>/", services.service, name="service-account"),
        path(
            "settings/service-accounts/<str:name>/tokens/", services.make_token, name="service-account-tokens"
        ),
        path(
            "settings/service-accounts/<str:name>/tokens/<uuid:token_id>/revoke/",
            services.revoke_token,
            name="service-account-token-revoke",
        ),
        path(
            "settings/service-accounts/<str:name>/tokens/<uuid:token_id>/rotate/",
            services.rotate_token,
            name="service-account-token-rotate",
        ),
        path("settings/service-accounts/<str:name>/limits/", services.limits, name="service-account-limits"),
        path(
            "settings/service-accounts/<str:name>/disable/", services.disable, name="service-account-disable"
        ),
        path("settings/service-accounts/<str:name>/enable/", services.enable, name="service-account-enable"),
        path("settings/data/", data.sources, name="data-sources"),
        path("settings/data/<slug:team>/<str:name>/", data.source, name="data-source"),
        path("settings/data/<slug:team>/<str:name>/delete/", data.delete, name="data-source-delete"),
        path("settings/environments/", environments.environments, name="environments"),
        path("settings/environments/<slug:team>/<str:name>/", environments.environment, name="environment"),
        path("settings/environments/<slug:team>/<str:name>/act/", environments.act, name="environment-act"),
        path("settings/credentials/", credentials.credentials, name="credentials"),
        path("settings/credentials/own/<str:name>/", credentials.credential, name="credential"),
        path("settings/credentials/own/<str:name>/delete/", credentials.delete, name="credential-delete"),
        path(
            "settings/credentials/of/<slug:team>/<str:name>/", credentials.credential, name="team-credential"
        ),
        path(
            "settings/credentials/of/<slug:team>/<str:name>/delete/",
            credentials.delete,
            name="team-credential-delete",
        ),
        path("clusters/<slug:name>/simulated-agent/", views.demo_agent, name="demo-agent"),
    ],
    "chamber",
)

urlpatterns = [
    path("", include(chamber_patterns)),
    # The names are those by which allauth finds its pages.
    path("sign-in/", views_sign_in.SignInPage.as_view(), name="account_login"),
    path("sign-in/factor/", factors_sign_in.SecondStep.as_view(), name="mfa_authenticate"),
    path("sign-in/passkey/", factors_sign_in.PasskeySignIn.as_view(), name="mfa_login_webauthn"),
    path("sign-in/with/<slug:provider_id>/", oidc.start, name="openid_connect_login"),
    path("sign-in/with/<slug:provider_id>/back/", oidc.back, name="openid_connect_callback"),
    path("sign-in/with/<slug:provider_id>/ended/", oidc.ended, name="openid_connect_ended"),
    path("scim/<slug:provider_id>/v2/<path:path>", scim.scim, name="scim"),
    path("sign-in/again/", views_again.again, name="account_reauthenticate"),
    path("sign-out/", views_sign_in.SignOut.as_view(), name="account_logout"),
    path("sign-in/forgotten/", views_sign_in.Forgotten.as_view(), name="account_reset_password"),
    path(
        "sign-in/forgotten/sent/", views_sign_in.ForgottenSent.as_view(), name="account_reset_password_done"
    ),
    path(
        "sign-in/forgotten/<word:uidb36>-<slug:key>/",
        views_sign_in.NewPassword.as_view(),
        name="account_reset_password_from_key",
    ),
    path("sign-in/address/<str:key>/", views_sign_in.ConfirmAddress.as_view(), name="account_confirm_email"),
    path("password-strength/", strength, name="account_password_strength"),
    path("settings/password/", views_sign_in.ChangePassword.as_view(), name="account_change_password"),
    path("teams/", include("teams.urls")),
    path("workloads/", include("workloads.urls")),
    path("", include("agentlink.urls")),
    path("", include("scheduling.urls")),
    path("api/v1/", include("chamber.api")),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
]

handler400 = "chamber.views_errors.bad_request"
handler500 = "chamber.views_errors.server_error"
handler404 = "chamber.views_errors.not_found"
